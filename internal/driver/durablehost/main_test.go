package durablehost

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// process is a Host for tests.
type process struct {
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	ended  bool
	events []durable.Event
	above  []uint32
	last   uint32                  // the last term in the store; 0 means that of above
	tells  func(durable.Tell) bool // receives a tell; if nil, tells do not arrive
}

func newProcess(t *testing.T) *process {
	p := &process{}
	p.ctx, p.stop = context.WithCancel(context.Background())
	t.Cleanup(p.end)
	return p
}

func (p *process) end() {
	p.stop()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *process) Context() context.Context { return p.ctx }

func (p *process) Go(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.wg.Go(f)
	}
}

func (p *process) Above(term uint32) (last uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.above = append(p.above, term)
	return max(term, p.last)
}

func (p *process) Look(t *Tenure, entities []string) {}

func (p *process) Tell(_ context.Context, _ store.Shard, tells []durable.Tell, then func([]durable.Tell, bool)) {
	p.mu.Lock()
	take := p.tells
	p.mu.Unlock()
	for _, tell := range tells {
		p.Go(func() { then([]durable.Tell{tell}, take != nil && take(tell)) })
	}
}

func (p *process) Event(_ *Tenure, e durable.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

func (p *process) saw(k durable.EventKind) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// account is the shard that the tests use.
var account = store.Shard{Type: "Account", Number: 70}

func newShard(t *testing.T, s store.Shards, node int, limits durable.Limits) (*Shard, *process) {
	p := newProcess(t)
	sh := New(Config{
		Shard: account, Store: s, Node: fmt.Sprintf("n%d", node), Incarnation: uint64(node),
		Limits: limits, Patience: time.Second, Host: p,
	})
	t.Cleanup(sh.Close)
	return sh, p
}

// jetStream starts a NATS server, and returns the shards of a store on it.
func jetStream(t testing.TB) store.Shards {
	t.Helper()
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	s, err := natsstore.Open(t.Context(), server.URL(), natsstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.Shards()
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func tenureOf(t *testing.T, s *Shard) *Tenure {
	t.Helper()
	tenure, err := s.Tenure(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return tenure
}

// set commits a state and waits until the log has it.
func set(t *testing.T, tenure *Tenure, entity, state string) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	if _, err := tenure.Load(ctx, entity); err != nil {
		t.Fatal(err)
	}
	ticket, err := tenure.Commit(&durable.Turn{Entity: entity, State: []byte(state)})
	if err != nil {
		t.Fatal(err)
	}
	if err := tenure.Wait(ctx, ticket); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, tenure *Tenure, entity string) string {
	t.Helper()
	l, err := tenure.Load(within(t, 20*time.Second), entity)
	if err != nil {
		t.Fatal(err)
	}
	return string(l.State)
}
