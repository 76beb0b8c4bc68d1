package shard

import (
	"context"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/driver/node"
)

// ErrNotPublished means that [Publish] did not publish.
var ErrNotPublished = node.ErrNotPublished

// A PublishOption changes how [Publish] publishes.
type PublishOption int

// BestEffort makes [Publish] send the message once over core NATS, after the turn's commit, to those
// who subscribe at that moment. It is not stored, and lost if the process or the connection ends.
// Methods marked //shard:read and volatile types may publish with BestEffort only; a volatile type's
// message is sent at once.
const BestEffort PublishOption = 1

// Publish publishes v on a subject, as part of the commit of the turn to which ctx belongs: v is
// published if and only if the turn's changes are stored. The shard's home repeats the message
// until the JetStream stream with that subject has stored it. An entity's messages are stored once
// each, in the order of the entity's turns; docs/guide/publishing.md lists the exceptions to
// "once". A []byte is published as it is, a proto.Message as protobuf, and any other value as JSON.
// The subject obeys store.CheckSubject.
//
// Publish returns before the message is published. It fails with ErrNotPublished if ctx belongs to
// no turn of a durable type, if Config.Store is not a [store.Publisher], or if the subject or the
// value is invalid. If no stream has the subject, the message and the entity's later messages wait.
// A message that has waited for an hour is given up and logged as a dead letter.
func Publish(ctx context.Context, subject string, v any, options ...PublishOption) error {
	bestEffort := false
	for _, o := range options {
		bestEffort = bestEffort || o == BestEffort
	}
	return node.Publish(ctx, subject, func() ([]byte, error) { return encodeMessage(v) }, bestEffort)
}

func encodeMessage(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return slices.Clone(v), nil
	case proto.Message:
		return proto.Marshal(v)
	}
	return json.Marshal(v)
}
