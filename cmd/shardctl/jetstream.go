package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStreamTimeout bounds the wait for each answer of JetStream.
const jetStreamTimeout = 3 * time.Second

// A jetStream asks a server about JetStream, with the rights of the operator and of nobody else.
type jetStream struct {
	conn *nats.Conn
	// ctx ends with the server's refusal of a subject, which no answer follows.
	ctx context.Context
}

// dialJetStream connects to the servers. Answers come to an inbox with the operator's
// name, which its user may hear.
func dialJetStream(ctx context.Context, c *connection) (*jetStream, error) {
	ctx, refuse := context.WithCancelCause(ctx)
	denied := func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			refuse(err)
		}
	}
	opts := append(c.options(), nats.NoReconnect(), nats.ErrorHandler(denied))
	if c.name != "" {
		opts = append(opts, nats.CustomInboxPrefix("_INBOX."+c.name))
	}
	conn, err := nats.Connect(c.url, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.url, err)
	}
	return &jetStream{conn, ctx}, nil
}

// A jetStreamError is an error with which JetStream answers.
type jetStreamError struct {
	Code        int    `json:"code"`
	Description string `json:"description"`
}

func (e *jetStreamError) Error() string {
	return fmt.Sprintf("JetStream answers: %s (%d)", e.Description, e.Code)
}

// errNoJetStream means that nobody serves JetStream's interface.
var errNoJetStream = errors.New("JetStream is off at the servers")

// ask sends a request to JetStream's interface and decodes the answer.
func (j *jetStream) ask(verb string, request, answer any) error {
	ctx, cancel := context.WithTimeoutCause(j.ctx, jetStreamTimeout, fmt.Errorf("no answer within %v", jetStreamTimeout))
	defer cancel()
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := j.conn.RequestWithContext(ctx, "$JS.API."+verb, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return errNoJetStream
	case err != nil:
		return fmt.Errorf("$JS.API.%s: %w", verb, cmp.Or(context.Cause(ctx), err))
	}
	var refused struct{ Error *jetStreamError }
	if err := json.Unmarshal(m.Data, &refused); err != nil {
		return fmt.Errorf("$JS.API.%s: %w", verb, err)
	}
	if refused.Error != nil {
		return refused.Error
	}
	return json.Unmarshal(m.Data, answer)
}

// account returns the limits and the use of the account.
func (j *jetStream) account() (a jetstream.AccountInfo, err error) {
	return a, j.ask("INFO", nil, &a)
}

// A streamList is a page of JetStream's list of streams. In a cluster of servers, it names the streams
// for which no server answers.
type streamList struct {
	Total   int                     `json:"total"`
	Streams []*jetstream.StreamInfo `json:"streams"`
	Missing []string                `json:"missing"`
	Offline map[string]string       `json:"offline"` // why, by stream
}

// streams returns all streams with subjects that the pattern covers.
func (j *jetStream) streams(subjects string) (all streamList, err error) {
	request := struct {
		Offset  int    `json:"offset"`
		Subject string `json:"subject"`
	}{Subject: subjects}
	for {
		var page streamList
		if err := j.ask("STREAM.LIST", request, &page); err != nil {
			return all, err
		}
		all.Streams = append(all.Streams, page.Streams...)
		if request.Offset == 0 {
			all.Missing, all.Offline = page.Missing, page.Offline
		}
		if request.Offset += len(page.Streams); len(page.Streams) == 0 || request.Offset >= page.Total {
			return all, nil
		}
	}
}
