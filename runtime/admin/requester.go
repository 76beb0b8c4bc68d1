package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A requester sends requests of operators to processes of a cluster, and matches the
// answers to them. It is safe for concurrent use.
type requester struct {
	cluster string
	timeout time.Duration
	self    transport.Peer
	link    transport.Link
	wg      sync.WaitGroup

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan reply
}

// reply is the response to a request: an answer, or the broker's notice that nobody
// listens.
type reply struct {
	from   transport.Peer
	answer operator.Answer
	nobody bool
}

// Close ends the connection. It may be called twice.
func (q *requester) Close() error {
	err := q.link.Close()
	q.wg.Wait()
	return err
}

func (q *requester) receive() {
	for {
		m, err := q.link.Receive(transport.Control)
		if err != nil {
			return
		}
		if m.Kind == transport.Unreachable {
			q.hand(m.Token, reply{from: transport.Peer{Address: m.From}, nobody: true})
			continue
		}
		from, topic, body, err := wire.OpenControl(q.cluster, m.Payload)
		if err != nil || topic != wire.ControlTopic_CONTROL_TOPIC_ADMIN {
			continue // not for operators
		}
		if id, _, a, err := operator.Decode(body); err == nil && a != nil {
			q.hand(id, reply{from: from, answer: *a})
		}
	}
}

// repliesKept bounds the answers to one request that wait to be read: the
// processes of the largest cluster that is simulated, and then some.
const repliesKept = 4096

func (q *requester) hand(id uint64, r reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ch := q.pending[id]; ch != nil {
		select {
		case ch <- r:
		default: // more processes than anybody reads
		}
	}
}

// open begins a request; end forgets it.
func (q *requester) open() (id uint64, replies <-chan reply, end func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next++
	id = q.next
	ch := make(chan reply, repliesKept)
	q.pending[id] = ch
	return id, ch, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.pending, id)
	}
}

// A recipient receives a request.
type recipient struct {
	to   transport.Address // zero: not one process
	what string
	all  bool // every process
}

var (
	anyMember    = recipient{what: "any member"}
	everyProcess = recipient{what: "every process", all: true}
)

func (q *requester) send(to recipient, id uint64, r operator.Request) error {
	body, err := operator.Encode(id, &r, nil)
	if err != nil {
		return err
	}
	b := wire.SealControl(q.cluster, q.self, wire.ControlTopic_CONTROL_TOPIC_ADMIN, body)
	switch {
	case to.all:
		return q.link.Broadcast(b)
	case to.to.IsZero():
		return q.link.Anycast(id, b)
	}
	return q.link.Send(transport.Control, transport.Peer{Address: to.to}, id, b)
}

// askAgain is how long after an unanswered request it is sent once more; all
// commands may be obeyed twice.
const askAgain = 500 * time.Millisecond

var errNobody = errors.New("nobody listens there")

// ask sends a request until it is answered. errNobody is the broker's word that
// nobody listens.
func (q *requester) ask(ctx context.Context, to recipient, r operator.Request) (operator.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, q.timeout, fmt.Errorf("no answer within %v", q.timeout))
	defer cancel()
	id, replies, end := q.open()
	defer end()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		if err := q.send(to, id, r); err != nil && !errors.Is(err, transport.ErrDisconnected) {
			return operator.Answer{}, fmt.Errorf("%v: ask %s: %w", r.Command, to.what, err)
		}
		select {
		case got := <-replies:
			switch {
			case got.nobody:
				return operator.Answer{}, fmt.Errorf("%v: ask %s: %w", r.Command, to.what, errNobody)
			case got.answer.Refusal != "":
				return got.answer, fmt.Errorf("%v: %w by %s: %s", r.Command, ErrRefused, got.from.Name, got.answer.Refusal)
			}
			return got.answer, nil
		case <-again.C:
		case <-ctx.Done():
			return operator.Answer{}, fmt.Errorf("%v: ask %s: %w", r.Command, to.what, context.Cause(ctx))
		}
	}
}
