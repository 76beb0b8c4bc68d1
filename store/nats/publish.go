package natsstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/store"
)

const (
	headerLast        = "Nats-Expected-Last-Subject-Sequence"
	headerLastSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerTTL         = "Nats-TTL"
	headerBatch       = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerCommit      = "Nats-Batch-Commit"
	headerSince       = "Shardgen-Since"   // of a head
	headerDeleted     = "Shardgen-Deleted" // of the mark of a deleted record
)

// deletedFor is how long the server keeps a deleted record's empty message. Correctness does not
// depend on it.
const deletedFor = "600s"

func message(subject string, data []byte, headers ...string) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data}
	if len(headers) > 0 {
		m.Header = make(nats.Header, len(headers)/2+2)
	}
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	return m
}

func number[N ~uint64](n N) string { return strconv.FormatUint(uint64(n), 10) }

// headerRoom exceeds the size of a message's headers: two subjects and half a kilobyte.
const headerRoom = 4 << 10

type writer struct{ *reader }

func (c *writer) checkPayload(data []byte) error {
	limit := int(c.nc.MaxPayload()) - headerRoom
	if len(data) <= limit {
		return nil
	}
	return &store.TooLargeError{
		Size: len(data), Limit: max(limit, 0),
		Hint: fmt.Sprintf("the server's max_payload is %d: raise it to 1MB, its default", c.nc.MaxPayload()),
	}
}

// leaderless bounds the wait for a stream's leader. All servers know a new stream's leader a moment
// after its creation.
const leaderless = 2 * time.Second

func (c *writer) publish(ctx context.Context, stream string, m *nats.Msg) (uint64, error) {
	if err := c.checkPayload(m.Data); err != nil {
		return 0, err
	}
	began := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		r, token, err := c.send(ctx, m, false)
		if err != nil {
			return 0, err
		}
		seq, err := c.acknowledged(ctx, stream, r, token)
		if !errors.Is(err, errNoLeader) || time.Since(began) > leaderless || !pause(ctx, wait) {
			return seq, err
		}
	}
}

// publishIdle publishes m, and waits while the stream is busy: callers do not handle store.ErrBusy.
func (c *writer) publishIdle(ctx context.Context, stream string, m *nats.Msg) (uint64, error) {
	return c.idle(ctx, func() (uint64, error) { return c.publish(ctx, stream, m) })
}

func (c *writer) idle(ctx context.Context, f func() (uint64, error)) (uint64, error) {
	began := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		seq, err := f()
		if !errors.Is(err, store.ErrBusy) || time.Since(began) > c.timeout || !pause(ctx, wait) {
			return seq, err
		}
	}
}

func (c *writer) publishBatchIdle(ctx context.Context, stream string, f func() []*nats.Msg) (uint64, error) {
	return c.idle(ctx, func() (uint64, error) { return c.publishBatch(ctx, stream, f()) })
}

func (c *writer) acknowledged(ctx context.Context, stream string, r *request, token uint64) (uint64, error) {
	got, err := c.await(ctx, r, token, store.ErrUncertain)
	if err != nil {
		return 0, err
	}
	return c.written(ctx, stream, got)
}

// begin sends m and reports whether it could send it. If so, begin later calls the function then,
// once. If the answer is a plain acknowledgement, then gets its sequence. Otherwise then gets rest,
// a function that finds the outcome.
func (c *writer) begin(stream string, m *nats.Msg, then func(seq uint64, rest func(context.Context) (uint64, error))) bool {
	err := c.conn.begin(m, func(r *request) {
		if r.err == nil {
			if seq, ok := plainAck(r.got[0].Data, stream); ok {
				then(seq, nil)
				return
			}
		}
		then(0, func(ctx context.Context) (uint64, error) {
			got, err := c.outcome(r, store.ErrUncertain)
			if err != nil {
				return 0, err
			}
			seq, err := c.written(ctx, stream, got)
			if errors.Is(err, errNoLeader) {
				return c.publish(ctx, stream, m) // no server had the message
			}
			return seq, err
		})
	})
	return err == nil
}

func (c *writer) written(ctx context.Context, stream string, got []*nats.Msg) (uint64, error) {
	if nobody(got[0]) {
		return 0, c.why(ctx, stream)
	}
	if seq, ok := plainAck(got[0].Data, stream); ok {
		return seq, nil
	}
	var ack struct {
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
		Error  *apiError `json:"error"`
	}
	if err := json.Unmarshal(got[0].Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: the acknowledgement of stream %s: %w", store.ErrUncertain, stream, err)
	}
	switch {
	case ack.Error != nil:
		return 0, ack.Error.cause(stream)
	case ack.Stream != stream:
		return 0, fmt.Errorf("%w: stream %q took a message for %s (remove these subjects from that stream)", store.ErrUncertain, ack.Stream, stream)
	}
	return ack.Seq, nil
}

// plainAck parses the usual form of an acknowledgement. Other answers, such as errors, begin
// differently.
func plainAck(data []byte, stream string) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok || len(rest) <= len(stream) || string(rest[:len(stream)]) != stream {
		return 0, false
	}
	rest, ok = bytes.CutPrefix(rest[len(stream):], []byte(`","seq":`))
	end := bytes.IndexAny(rest, ",}")
	if !ok || end < 0 {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
	return seq, err == nil && seq != 0
}

// Bounds of the messages of a Put that are under way together.
const (
	partMessages = 500 // an atomic batch may have 1,000
	partBytes    = 4 << 20
)

// split divides messages into parts that must be published one after another.
func split(all []*nats.Msg) (parts [][]*nats.Msg) {
	first, bytes := 0, 0
	for i, m := range all {
		size := len(m.Subject) + len(m.Data)
		if i > first && (i-first == partMessages || bytes+size > partBytes) {
			parts = append(parts, all[first:i])
			first, bytes = i, 0
		}
		bytes += size
	}
	if first < len(all) {
		parts = append(parts, all[first:])
	}
	return parts
}

// publishEach writes messages concurrently, and returns the highest sequence or the gravest error.
func (c *writer) publishEach(ctx context.Context, stream string, all []*nats.Msg) (last uint64, err error) {
	type sent struct {
		r     *request
		token uint64
	}
	var waiting []sent
	var failed error
	for _, m := range all {
		r, token, err := c.send(ctx, m, false)
		if err != nil {
			failed = err
			break
		}
		waiting = append(waiting, sent{r, token})
	}
	for _, w := range waiting {
		seq, err := c.acknowledged(ctx, stream, w.r, w.token)
		last, failed = max(last, seq), graver(failed, err)
	}
	return last, failed
}

// graver returns the error that matters more to the caller.
func graver(a, b error) error {
	for _, cause := range []error{store.ErrConflict, store.ErrUncertain} {
		if errors.Is(a, cause) {
			return a
		}
		if errors.Is(b, cause) {
			return b
		}
	}
	if a != nil {
		return a
	}
	return b
}

// publishBatch writes one atomic batch. Replicated streams refuse concurrent single messages with
// the same expected head, but accept them in one batch.
func (c *writer) publishBatch(ctx context.Context, stream string, all []*nats.Msg) (uint64, error) {
	if len(all) == 1 {
		return c.publish(ctx, stream, all[0])
	}
	id := nats.NewInbox()
	id = id[len(id)-22:] // an id may have at most 64 bytes
	for i, m := range all[:len(all)-1] {
		m.Header[headerBatch], m.Header[headerBatchSeq] = []string{id}, []string{strconv.Itoa(i + 1)}
		if err := c.nc.PublishMsg(m); err != nil {
			return 0, unsent(err) // the server drops batches without an end
		}
	}
	end := all[len(all)-1]
	end.Header[headerBatch], end.Header[headerBatchSeq] = []string{id}, []string{strconv.Itoa(len(all))}
	end.Header[headerCommit] = []string{"1"}
	return c.publish(ctx, stream, end)
}
