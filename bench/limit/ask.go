package limit

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// A Requester makes calls in batches, and keeps the pending calls in a table of its own. It is safe
// for concurrent use.
type Requester struct {
	out     *writer
	lastID  atomic.Uint64
	waiting atomic.Int64
	stripes [64]stripe
	calls   sync.Pool
}

// A stripe holds a part of a Requester's pending calls, with its own lock.
type stripe struct {
	mu    sync.Mutex
	calls map[uint64]chan []byte
	_     [48]byte // a cache line each
}

// NewRequester returns a Requester that calls the process that serves subject, until stop is
// called. fail gets errors of received messages.
func NewRequester(conn *nats.Conn, subject string, fail func(error)) (r *Requester, stop func(), err error) {
	inbox := conn.NewInbox()
	r = newRequester(func(batch []byte) error { return conn.PublishRequest(subject, inbox, batch) })
	stop, err = receive(conn, inbox, func(m *nats.Msg) error { return r.answered(m.Data) }, fail)
	return r, stop, err
}

func newRequester(publish func(batch []byte) error) *Requester {
	r := new(Requester)
	r.calls.New = func() any { return make(chan []byte, 1) }
	for i := range r.stripes {
		r.stripes[i].calls = make(map[uint64]chan []byte)
	}
	r.out = newWriter(publish, func() bool { return r.waiting.Load() > 1 })
	return r
}

func (r *Requester) stripe(id uint64) *stripe { return &r.stripes[id%uint64(len(r.stripes))] }

// Ask makes one call and returns the answer.
func (r *Requester) Ask(payload []byte) ([]byte, error) {
	done := r.calls.Get().(chan []byte)
	id := r.lastID.Add(1)
	s := r.stripe(id)
	s.mu.Lock()
	s.calls[id] = done
	s.mu.Unlock()
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	if _, err := r.out.write(id, payload); err != nil {
		return nil, err
	}
	reply := <-done
	r.calls.Put(done)
	return reply, nil
}

// answered ends the calls that batch answers. The answers share memory with batch, which must not
// be reused.
func (r *Requester) answered(batch []byte) error { return eachEnvelope(batch, r.finish) }

func (r *Requester) finish(id uint64, payload []byte) error {
	s := r.stripe(id)
	s.mu.Lock()
	done := s.calls[id]
	delete(s.calls, id)
	s.mu.Unlock()
	if done == nil {
		return fmt.Errorf("reply to call %d: no caller waits for it", id)
	}
	done <- payload
	return nil
}

// Answer serves subject until stop is called: it answers each envelope with the same payload, and
// sends the answers to all calls of one message in one message.
func Answer(conn *nats.Conn, subject string, fail func(error)) (stop func(), err error) {
	var replies []byte
	return receive(conn, subject, func(m *nats.Msg) (err error) {
		if replies, err = appendReplies(replies[:0], m.Data); err != nil {
			return err
		}
		return conn.Publish(m.Reply, replies)
	}, fail)
}

func appendReplies(replies, batch []byte) ([]byte, error) {
	err := eachEnvelope(batch, func(id uint64, payload []byte) error {
		replies = appendEnvelope(replies, id, payload)
		return nil
	})
	return replies, err
}
