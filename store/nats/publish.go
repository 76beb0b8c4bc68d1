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

// Headers of published messages.
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

// deletedFor is how long an empty message stands for a record that was deleted. It
// is garbage: nothing is decided by its absence.
const deletedFor = "600s"

// message makes one to publish; headers are pairs of name and value.
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

// headerRoom is more than the headers of any message take: two subjects, and less
// than half a kilobyte of others.
const headerRoom = 4 << 10

// A writer publishes to streams.
type writer struct{ *reader }

// checkPayload returns a *store.TooLargeError for data that the server would not take.
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

// leaderless bounds how long a write waits for a stream's leader: that of a new
// stream is known to all servers a moment after it was created.
const leaderless = 2 * time.Second

// publish writes one message and returns its sequence.
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

// publishIdle is publish for small records, whose users know no store.ErrBusy: it tries
// again while the stream is busy.
func (c *writer) publishIdle(ctx context.Context, stream string, m *nats.Msg) (uint64, error) {
	began := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		seq, err := c.publish(ctx, stream, m)
		if !errors.Is(err, store.ErrBusy) || time.Since(began) > c.timeout || !pause(ctx, wait) {
			return seq, err
		}
	}
}

// acknowledged waits for the answer to a published message.
func (c *writer) acknowledged(ctx context.Context, stream string, r *request, token uint64) (uint64, error) {
	got, err := c.await(ctx, r, token, store.ErrUncertain)
	if err != nil {
		return 0, err
	}
	return c.written(ctx, stream, got)
}

// begin publishes one message and has then called with its sequence, or else with a function that
// learns the outcome. It reports whether the message was sent.
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
				return c.publish(ctx, stream, m) // nobody had it
			}
			return seq, err
		})
	})
	return err == nil
}

// written reads the acknowledgement of a published message.
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
		return 0, fmt.Errorf("%w: stream %q took a message for %s (remove its subjects)", store.ErrUncertain, ack.Stream, stream)
	}
	return ack.Seq, nil
}

// plainAck reads the acknowledgement that almost all writes get; ok is false for
// every other answer. An error comes before the stream's name.
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

// Bounds of a part of a Put's messages, which are under way together.
const (
	partMessages = 500 // an atomic batch may have 1,000
	partBytes    = 4 << 20
)

// split splits messages into parts that are published one after another.
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

// publishEach writes messages one by one, all under way at once, and returns the
// highest sequence. Of several errors it returns the one that says most.
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

// graver returns the one of two errors that a caller must learn of.
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

// publishBatch writes messages as one atomic batch and returns the last sequence. On
// streams of several replicas single messages that name one head are refused while
// another is under way; those of a batch are not.
func (c *writer) publishBatch(ctx context.Context, stream string, all []*nats.Msg) (uint64, error) {
	if len(all) == 1 {
		return c.publish(ctx, stream, all[0])
	}
	id := nats.NewInbox()
	id = id[len(id)-22:] // of 64 bytes at most
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
