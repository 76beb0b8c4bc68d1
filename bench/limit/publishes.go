package limit

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// CommitBytes is the size of a publish's payload: about the size of one turn's commit.
const CommitBytes = 128

// maxPublishers bounds concurrent callers.
const maxPublishers = 4096

// Publishes writes the state of each entity to a subject of its own, as an application without
// shardgen would. A write expects the sequence of the entity's last write (compare-and-set).
type Publishes struct {
	conn *nats.Conn
	js   jetstream.JetStream
	last []uint64 // by entity; each has one caller
}

// NewPublishes connects to the server at url, which has JetStream, and creates an empty stream.
func NewPublishes(ctx context.Context, url string, replicas, entities int) (*Publishes, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*maxPublishers))
	if err == nil {
		_ = js.DeleteStream(ctx, "RAW") // of an earlier run; there may be none
		err = createStream(ctx, js, jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.>"}, MaxMsgsPerSubject: 1, Replicas: replicas, Storage: jetstream.FileStorage})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Publishes{conn: conn, js: js, last: make([]uint64, entities)}, nil
}

// createStream tries up to 30 times, because servers may be electing a leader.
func createStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (err error) {
	for range 30 {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err = js.CreateStream(try, c)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// Publish writes an entity's state and waits for the acknowledgement.
func (p *Publishes) Publish(entity int) error {
	m := &nats.Msg{Subject: "raw." + strconv.Itoa(entity), Data: make([]byte, CommitBytes)}
	future, err := p.js.PublishMsgAsync(m, jetstream.WithExpectLastSequencePerSubject(p.last[entity]))
	if err != nil {
		return err
	}
	select {
	case ack := <-future.Ok():
		p.last[entity] = ack.Sequence
		return nil
	case err := <-future.Err():
		return err
	}
}

func (p *Publishes) Close() { p.conn.Close() }
