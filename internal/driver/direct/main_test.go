package direct

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

const (
	testPatience = 30 * time.Second
	testTick     = 2 * time.Millisecond
)

var (
	memberA = transport.Peer{Address: transport.Address{Name: "a", Incarnation: identity.Mark(identity.Member, 1)}}
	memberB = transport.Peer{Address: transport.Address{Name: "b", Incarnation: identity.Mark(identity.Member, 2)}}
	clientC = transport.Peer{Address: transport.Address{Name: "c", Incarnation: identity.Mark(identity.Client, 3)}, Client: true}
)

// A process has only Lanes. Its broker is a function call.
type process struct {
	t      *testing.T
	self   transport.Peer
	lanes  *Lanes
	group  tasks.Group
	broker *broker
	opened chan *Conn

	counts   [8]atomic.Uint64
	ended    [agree.Reasons]atomic.Uint64
	wanted   func(*Conn) // called for a connection that is open and asked for again; nil: nothing is done
	insecure atomic.Bool
}

var _ Env = (*process)(nil)

// A broker passes messages to processes, unless it is cut.
type broker struct {
	mu     sync.Mutex
	all    map[transport.Address]*process
	cut    bool
	change func(from transport.Peer, m agree.Message) agree.Message // changes messages on their way
}

func newBroker() *broker { return &broker{all: map[transport.Address]*process{}} }

func (b *broker) process(t *testing.T, self transport.Peer, listen string) *process {
	t.Helper()
	return b.start(t, Config{Self: self, Listen: listen})
}

// start starts a process with a configuration.
func (b *broker) start(t *testing.T, cfg Config) *process {
	t.Helper()
	p := &process{t: t, self: cfg.Self, broker: b, opened: make(chan *Conn, 100)}
	p.group.Init()
	cfg.Lanes, cfg.Waiting = 2, 1<<20
	l, err := New(cfg, p)
	require.NoError(t, err)
	p.lanes = l
	b.mu.Lock()
	b.all[cfg.Self.Address] = p
	b.mu.Unlock()
	l.Start()
	t.Cleanup(func() {
		l.Close()
		ctx, cancel := context.WithTimeout(context.Background(), testPatience)
		defer cancel()
		require.True(t, p.group.Wait(ctx), "goroutines have ended")
	})
	return p
}

func (p *process) Go(f func()) { p.group.Go(f) }

func (p *process) Send(to transport.Peer, body []byte) {
	p.broker.mu.Lock()
	o, cut, change := p.broker.all[to.Address], p.broker.cut, p.broker.change
	p.broker.mu.Unlock()
	if o == nil || cut {
		return
	}
	if change != nil {
		m, err := decodeMessage(body)
		require.NoError(p.t, err)
		body, err = encode(change(p.self, m))
		require.NoError(p.t, err)
	}
	p.group.Go(func() { _ = o.lanes.Receive(p.self, body) })
}

func (p *process) Confidential() error {
	if p.insecure.Load() {
		return errors.New("in the clear")
	}
	return nil
}

func (p *process) MaxPayload() int { return 1 << 20 }
func (p *process) Carry(c *Conn)   { p.opened <- c }

func (p *process) Wanted(c *Conn) {
	if p.wanted != nil {
		p.wanted(c)
	}
}

func (p *process) Count(e Counter) (n uint64, tell bool) { return p.counts[e].Add(1), true }

func (p *process) Closed(_ transport.Peer, _ int, why agree.Reason) { p.ended[why].Add(1) }

func (p *process) Log(text string, args ...any) {
	p.t.Log(append([]any{p.self.Name, text}, args...)...)
}

// await waits for the process's next connection.
func (p *process) await() *Conn {
	p.t.Helper()
	select {
	case c := <-p.opened:
		p.t.Cleanup(func() { p.lanes.Ended(c) })
		return c
	case <-time.After(testPatience):
		p.t.Fatal("no connection")
		return nil
	}
}

// pair makes two processes agree on a connection.
func pair(t *testing.T) (a, b *process, ofA, ofB *Conn) {
	broker := newBroker()
	a, b = broker.process(t, memberA, "127.0.0.1:0"), broker.process(t, memberB, "127.0.0.1:0")
	a.lanes.Want(b.self, 1)
	return a, b, a.await(), b.await()
}
