package shardtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

// clientName names the client, also for faults.
const clientName = "client"

// A Cluster is a number of nodes in this process, with a broker, a store and a client. A method
// that may fail the test, as its comment says, must be called on the test's goroutine; other
// methods may be called on any goroutine.
type Cluster struct {
	ahead   time.Duration // how far the store's clock is ahead
	t       testing.TB
	options options
	seed    uint64
	virtual bool
	begin   time.Time
	broker  *memory.Broker
	store   *memorystore.Server
	random  *rand.Rand
	log     *testLog
	client  *shard.Conn         // belongs to the test's goroutine, as storms does
	reads   *memorystore.Client // the client's store, from which it follows events
	storms  uint64

	mu     sync.Mutex // guards nodes and paused
	nodes  map[string]*process
	paused map[string]time.Time // until when each node is paused
}

// Run runs a test of a cluster in virtual time. It calls the function test in a bubble of
// testing/synctest, with the cluster that [New] returns. When test has returned, Run closes the
// nodes and fails the test if goroutines are left. As in every bubble, test must not call t.Run,
// t.Parallel or t.Deadline.
func Run(t *testing.T, test func(t *testing.T, c *Cluster), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		test(t, New(t, opts...))
	})
}

// New starts a cluster: in virtual time inside a bubble of testing/synctest, otherwise in real
// time. It fails the test if a node does not start. When the test ends, the nodes are closed, and
// goroutines that are left in the bubble fail the test.
func New(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	o := options{nodes: 3}
	for _, opt := range opts {
		opt(&o)
	}
	seed, err := o.theSeed()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{
		t: t, options: o, seed: seed, virtual: inBubble(), begin: time.Now(),
		broker: memory.NewBroker(memory.Options{Seed: seed}), store: memorystore.New(),
		random: rand.New(rand.NewPCG(seed, 1)), nodes: map[string]*process{}, paused: map[string]time.Time{},
	}
	c.log, c.reads = newTestLog(t, c.begin), c.store.Client()
	t.Cleanup(c.end)
	t.Logf("seed %d (%s=%d replays it)", seed, SeedVariable, seed)
	if o.most > 0 {
		c.broker.Delay(memory.Path{From: memory.Any, To: memory.Any}, o.least, o.most)
	}
	for i := range o.nodes {
		c.Start(fmt.Sprint("n", i+1))
	}
	return c
}

// Seed returns the seed of the cluster's random choices.
func (c *Cluster) Seed() uint64 { return c.seed }

// Rand returns a source of random numbers with the cluster's seed. Only the test's goroutine may
// use it.
func (c *Cluster) Rand() *rand.Rand { return c.random }

// Broker returns the broker, for faults that no method of Cluster sets. The delays of [Latency] are
// set on the broker's path from Any to Any.
func (c *Cluster) Broker() *memory.Broker { return c.broker }

// Store returns the server of the store, for its faults. Each process has its own client of the
// server.
func (c *Cluster) Store() *memorystore.Server { return c.store }

// Client returns a connection from a process that is not a member, named "client". The first call
// of Client makes the connection, which can also follow events. Client fails the test if no member
// serves the connection.
func (c *Cluster) Client() *shard.Conn {
	c.t.Helper()
	if c.client != nil {
		return c.client
	}
	ctx, cancel := bounded(c.t)
	defer cancel()
	conn, err := shard.Dial(ctx, c.config(clientName, c.reads))
	if err != nil {
		c.t.Fatal(err)
	}
	c.client = conn
	return conn
}

// Node returns the node that was started last under this name. It fails the test if no node of that
// name was ever started.
func (c *Cluster) Node(name string) *shard.Node {
	c.t.Helper()
	p := c.process(name)
	if p == nil {
		c.t.Fatalf("no node %s has been started", name)
	}
	return p.node
}

func (c *Cluster) process(name string) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[name]
}

// storeOf returns a process's store client, or nil.
func (c *Cluster) storeOf(name string) *memorystore.Client {
	if name == clientName {
		return c.reads
	}
	if p := c.process(name); p != nil {
		return p.store
	}
	return nil
}

// Running returns the names of the running nodes, in order.
func (c *Cluster) Running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name, p := range c.nodes {
		if p.running() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Start starts a node under this name, for the first time or after the earlier one has ended, and
// waits until the node is Up. It fails the test if a node of this name is running, or if the new
// node does not become Up.
func (c *Cluster) Start(name string) {
	c.t.Helper()
	ctx, cancel := bounded(c.t)
	defer cancel()
	if err := c.start(ctx, name); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) start(ctx context.Context, name string) error {
	p := &process{store: c.store.Client()}
	if !c.process(name).running() {
		c.broker.Reconnect(name) // which Kill has disconnected
	}
	p.node = shard.New(c.config(name, p.store))
	for _, host := range c.options.host {
		if err := host(p.node); err != nil {
			return fmt.Errorf("start node %s: %w", name, err)
		}
	}
	c.mu.Lock()
	if c.nodes[name].running() {
		c.mu.Unlock()
		return fmt.Errorf("start node %s: the node already runs (use Restart)", name)
	}
	c.nodes[name] = p
	c.mu.Unlock()
	err := p.node.Start(ctx)
	if err != nil {
		_ = p.node.Close() // the error is always nil; a node whose Start failed may be started again
	}
	return err
}

func (c *Cluster) config(name string, s *memorystore.Client) shard.Config {
	cfg := shard.Config{
		Cluster: "shardtest", Name: name, Transport: c.broker.Transport(), Store: s,
		Logger: slog.New(c.log.handler()),
	}
	for _, tune := range c.options.tune {
		tune(&cfg)
	}
	return cfg
}

// Kill ends a node as SIGKILL would: the node sends and stores nothing more, and the other nodes
// must detect that it has ended. The contexts of methods that run at the node end; Kill waits up to
// five seconds until these methods return. It does nothing if the node has ended before.
func (c *Cluster) Kill(name string) {
	p := c.process(name)
	if !p.running() {
		return
	}
	c.broker.Disconnect(name)
	p.store.Cut(true)
	_ = p.node.Close() // the error is always nil
}

// Shutdown makes a node leave in order. It fails the test if the node cannot.
func (c *Cluster) Shutdown(name string) {
	c.t.Helper()
	ctx, cancel := bounded(c.t)
	defer cancel()
	if err := c.Node(name).Shutdown(ctx); err != nil {
		c.t.Fatal(err)
	}
}

// Restart kills a node if it is running, and then starts it again under the same name. It fails the
// test if the node does not become Up.
func (c *Cluster) Restart(name string) {
	c.t.Helper()
	c.Kill(name)
	c.Start(name)
}

// Pause makes a node stand still for d, as other processes see it: messages from and to the node,
// and its operations of the store, arrive only afterwards. The node's own clock goes on. Pause
// returns at once. If pauses of a node overlap, the node goes on after the last. Mend ends all
// pauses.
func (c *Cluster) Pause(name string, d time.Duration) {
	c.broker.Hold(memory.Path{From: name, To: memory.Any})
	c.broker.Hold(memory.Path{From: memory.Any, To: name})
	end := time.Now().Add(d)
	c.mu.Lock()
	if end.After(c.paused[name]) {
		c.paused[name] = end
	}
	c.mu.Unlock()
	if s := c.storeOf(name); s != nil {
		s.Fault(func(memorystore.Op) memorystore.Fault { return memorystore.Fault{Delay: c.pauseLeft(name)} })
	}
	time.AfterFunc(d, func() {
		if c.pauseLeft(name) <= 0 {
			c.resume(name)
		}
	})
}

// pauseLeft returns how long a node's pause still lasts; 0 or less without a pause.
func (c *Cluster) pauseLeft(name string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.paused[name])
}

func (c *Cluster) resume(name string) {
	c.mu.Lock()
	delete(c.paused, name)
	c.mu.Unlock()
	if s := c.storeOf(name); s != nil {
		s.Fault(nil)
	}
	c.broker.Release(memory.Path{From: name, To: memory.Any})
	c.broker.Release(memory.Path{From: memory.Any, To: name})
}

// Cut loses all messages between two processes, in both directions, until Mend. The client's name
// is "client".
func (c *Cluster) Cut(a, b string) {
	c.broker.Cut(memory.Path{From: a, To: b})
	c.broker.Cut(memory.Path{From: b, To: a})
}

// Isolate cuts a node off from all processes, from the store, and from messages to itself, until
// Mend.
func (c *Cluster) Isolate(name string) {
	c.broker.Cut(memory.Path{From: name, To: memory.Any})
	c.broker.Cut(memory.Path{From: memory.Any, To: name})
	if s := c.storeOf(name); s != nil {
		s.Cut(true)
	}
}

// Partition cuts the named processes off from all other processes and from the store, until Mend.
func (c *Cluster) Partition(names ...string) {
	inside := map[string]bool{}
	for _, name := range names {
		inside[name] = true
		if s := c.storeOf(name); s != nil {
			s.Cut(true)
		}
	}
	for _, other := range c.processes() {
		for _, name := range names {
			if !inside[other] {
				c.Cut(name, other)
			}
		}
	}
}

// Mend ends all cuts, isolations, partitions and pauses.
func (c *Cluster) Mend() {
	names := c.processes()
	for _, a := range names {
		c.join(a)
		for _, b := range names {
			c.broker.Mend(memory.Path{From: a, To: b})
		}
	}
}

// join ends a node's isolation and pause.
func (c *Cluster) join(name string) {
	c.resume(name)
	c.broker.Mend(memory.Path{From: name, To: memory.Any})
	c.broker.Mend(memory.Path{From: memory.Any, To: name})
	if name == clientName || c.process(name).running() {
		c.storeOf(name).Cut(false)
	}
}

// processes returns the client and all nodes ever started.
func (c *Cluster) processes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := []string{clientName}
	for name := range c.nodes {
		names = append(names, name)
	}
	return names
}

// Home returns the name of the node where an entity lives; kind is the name of the entity's type.
// The shards of a type have no homes before the first call of an entity of the type. Home waits
// until the entity has a home and that node runs. After ten minutes it fails the test.
func (c *Cluster) Home(kind, id string) (name string) {
	c.t.Helper()
	await(c.t, fmt.Sprintf("%s/%s has a home", kind, id), func() (err error) {
		name, err = home(c, kind, id)
		return err
	})
	return name
}

// Move moves the shard of an entity to a node, and waits until the entity lives there. The shard
// stays there as long as that node runs. After ten minutes Move fails the test.
func (c *Cluster) Move(kind, id, node string) {
	c.t.Helper()
	ctx, cancel := bounded(c.t)
	defer cancel()
	at, err := locate(c, kind, id)
	if err == nil {
		err = c.Node(node).PinShards(ctx, kind, map[uint32]string{at.Shard: node})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	await(c.t, fmt.Sprintf("%s/%s lives at %s", kind, id, node), func() error {
		for _, s := range c.Node(node).LocalShards(kind) {
			if s.Shard == at.Shard && s.State == "active" {
				return nil
			}
		}
		now, err := locate(c, kind, id)
		return errors.Join(err, fmt.Errorf("the entity lives at %q: %s", now.Node, now.Why))
	})
}

// Advance lets d pass. In virtual time it then waits until every goroutine waits for more time to
// pass. The nodes go on working during d, so letting a day pass takes over a minute of real time.
func (c *Cluster) Advance(d time.Duration) {
	time.Sleep(d)
	if c.virtual {
		synctest.Wait()
	}
}

// SkipTime sets the clock of the store ahead by d. It is for tests of reminders and expiry that
// would take too long with Advance. SkipTime returns when the nodes know the new time, which takes
// less than a minute. Each reminder that became due in the skipped time runs late, once. The nodes
// report that their wall clocks are behind the store's clock.
func (c *Cluster) SkipTime(d time.Duration) {
	c.ahead += d
	c.store.SetAhead(c.ahead)
	c.Advance(clockLearnt)
}

// clockLearnt exceeds the time in which nodes learn that the store's clock was set.
const clockLearnt = 40 * time.Second

// Until waits for a condition, which the function done reports. It calls the function every 10 ms,
// until the result is true. After ten minutes Until fails the test, with "waiting until <what>: …".
func (c *Cluster) Until(what string, done func() bool) {
	c.t.Helper()
	why := fmt.Errorf("condition not met after %v", patience)
	await(c.t, what, func() error {
		if done() {
			return nil
		}
		return why
	})
}

// Settle waits until all running nodes are Up and agree on that, and no shard has moved for a
// second. After ten minutes it fails the test, with the reason.
func (c *Cluster) Settle() {
	c.t.Helper()
	moves, since := uint64(0), time.Time{}
	await(c.t, "the cluster has settled", func() error {
		now, err := settled(c)
		if err != nil || now != moves || since.IsZero() {
			moves, since = now, time.Now()
		}
		if err == nil && time.Since(since) < calm {
			err = fmt.Errorf("a shard moved only %v ago", time.Since(since))
		}
		return err
	})
}

// Storm injects random faults during the time d. faults has the kinds of faults; if it is empty,
// all kinds are used. The cluster's seed determines the faults. Kills, departures, pauses and
// isolations make nodes unavailable: at any time fewer than half of the nodes, or one node in a
// cluster of one or two. Each fault is logged in the test's log. Storm returns when all faults have
// ended and all nodes that ran before run again. Meanwhile, make calls in other goroutines of the
// test, so that the faults hit these calls. Storm fails the test if a node does not become Up.
func (c *Cluster) Storm(d time.Duration, faults ...Fault) {
	c.t.Helper()
	if len(faults) == 0 {
		faults = allFaults
	}
	c.storms++
	s := &storm{cluster: c, begin: time.Now(), names: c.Running(), away: map[string]bool{}}
	ctx, cancel := bounded(c.t)
	defer cancel()
	for _, step := range plan(rand.New(rand.NewPCG(c.seed, 1+c.storms)), s.names, d, faults) {
		time.Sleep(time.Until(s.begin.Add(step.at)))
		s.revive(ctx)
		if step.fault.away() && !s.take(step.node, true) {
			continue
		}
		c.t.Log(step)
		s.running.Go(func() {
			s.note(s.run(ctx, step))
			if step.fault.away() {
				s.giveBack(step.node)
			}
		})
	}
	s.running.Wait()
	s.revive(ctx)
	s.running.Wait()
	if s.err != nil {
		c.t.Fatal(s.err)
	}
}

// end fails the test if goroutines are left.
func (c *Cluster) end() {
	c.t.Helper()
	defer c.log.close()
	c.Mend()
	if c.client != nil {
		_ = c.client.Close() // its error is about tells that the test did not await
	}
	for _, name := range c.Running() {
		_ = c.process(name).node.Close() // the error is always nil
	}
	if !c.virtual {
		return
	}
	if left := leaked(); len(left) > 0 {
		c.t.Errorf("%d goroutines are left after the test:\n\n%s", len(left), joinStacks(left))
	}
}

type process struct {
	node  *shard.Node
	store *memorystore.Client
}

// running reports whether the node has not ended. p may be nil.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.node.Done():
		return false
	default:
		return true
	}
}

// locate asks the nodes in order until one knows where the entity lives.
func locate(c *Cluster, kind, id string) (at shard.Location, err error) {
	err = errors.New("no node of the cluster runs (call Start)")
	for _, name := range c.Running() {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		at, err = c.process(name).node.Locate(ctx, kind, id)
		cancel()
		if err == nil {
			return at, nil
		}
	}
	return at, err
}

// home returns where the entity's shard is active. If it is active at none or several nodes, home
// returns the shard's home in the first answering node's table.
func home(c *Cluster, kind, id string) (string, error) {
	at, err := locate(c, kind, id)
	if err != nil {
		return "", err
	}
	var have []string
	names := c.Running()
	for _, name := range names {
		if slices.ContainsFunc(c.process(name).node.LocalShards(kind), func(s shard.ShardState) bool {
			return s.Shard == at.Shard && s.State == "active"
		}) {
			have = append(have, name)
		}
	}
	switch {
	case len(have) == 1:
		return have[0], nil
	case at.Node == "":
		return "", fmt.Errorf("%s/%s has no home: %s", kind, id, at.Why)
	case !slices.Contains(names, at.Node):
		return "", fmt.Errorf("the home %s of %s/%s does not run", at.Node, kind, id)
	}
	return at.Node, nil
}

const (
	patience = 10 * time.Minute // bounds each wait
	look     = 10 * time.Millisecond
	calm     = time.Second // for which no shard has moved in a settled cluster
)

func bounded(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}

// await calls the function done until that returns nil, for at most patience (10 minutes).
func await(t testing.TB, what string, done func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(look) {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// settled returns how often shards have moved, and why the cluster has not settled.
func settled(c *Cluster) (moves uint64, err error) {
	names := c.Running()
	for _, name := range names {
		n := c.process(name).node
		moves += n.Counters()["shard moved in"]
		v := n.Cluster()
		var up []string
		for _, m := range v.Members {
			if m.Status == shard.MemberUp && m.Reachable {
				up = append(up, m.Name)
			}
		}
		slices.Sort(up)
		switch {
		case !slices.Equal(up, names) || len(v.Members) != len(names):
			return moves, fmt.Errorf("%s sees %v up among the members %v: want %v", name, up, v.Members, names)
		case !v.Converged:
			return moves, fmt.Errorf("%s: the members do not agree: %s", name, v.Why)
		}
		for _, s := range n.LocalShards("") {
			if s.State != "active" && s.State != "forwarding" {
				return moves, fmt.Errorf("%s: shard %d of %s is %s", name, s.Shard, s.Kind, s.State)
			}
		}
	}
	return moves, nil
}
