package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/direct"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/remembering"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Driver is the data plane of one process: its lanes, sessions with peers, routes and pending
// calls. A node has a Driver. A client connection, which hosts nothing, also has one. A Driver
// exists before its process is connected, so that clients can be made and their calls can wait.
// Open connects the Driver.
type Driver struct {
	Config  Config
	Local   transport.Peer
	Logger  *slog.Logger
	Control ControlPlane
	Counts  Counters
	Lease   runner.Lease
	Memory  *remembering.Memory // of a node; else nil

	Group   tasks.Group     // every goroutine of the process
	Context context.Context // ends with Close
	halt    context.CancelFunc
	Turning Turning         // the contexts of the turns of encoded calls
	Stop    <-chan struct{} // closed when Context ends

	tr      atomic.Pointer[transport.Link]
	lanes   []*lane
	Runners []TurnRunner
	alone   atomic.Int64 // number of running turns of remote calls that have a goroutine of their own
	// answering is the number of turns that end on goroutines other than the lanes'. Each counts
	// from before its end until its answer is in its session.
	answering atomic.Int64
	deaf      atomic.Bool // the node handles no more envelopes
	watch     runner.Watchdog

	looks   looks
	Leaving atomic.Bool // this node is leaving the cluster and gives its shards away
	Exiting atomic.Bool // this node has given its shards away, and takes no shard any more

	tracing *tracing // nil: no call is traced

	Pending  calls.Table
	held     atomic.Int64   // calls held in routes
	Budget   *region.Budget // bytes of calls that wait, in routes and hosted shards
	Clock    atomic.Uint32
	Turns    *operator.TurnLog // the busiest entities
	Trend    *operator.Trend   // the last hour
	Load     *LoadMeter
	Failures operator.FailureLog // failed calls of this process's entities, for operators
	swept    atomic.Int64        // when Pending was last swept, in nanoseconds after the lease's base

	commands durablehost.Source   // numbers this process's calls to durable types
	outboxes []outbox             // send the tells of durable entities; each shard uses one
	Durable  *durablehost.Process // of a node with a store; else nil
	Limits   durable.Limits       // limits of durable shards; tests change them
	Follows  atomic.Uint64        // how many loops in this process have followed events under a follower's name
	// ChecksTurns is the result of checksTurns.
	ChecksTurns bool

	Undelivered LostTells
	Limiter     LogLimiter

	Direct atomic.Pointer[direct.Lanes] // nil: Config.Direct is not set, or the process has not started

	Sessions peers.Set
	Data     calls.Plane // refusals, moves, departed peers
	Reach    Reach

	kindsMu    sync.Mutex
	Kinds      atomic.Pointer[map[string]*Kind] // copied on write
	ShardTable atomic.Pointer[placement.Table]

	outside  LogLimiter // limits log lines that other processes cause, by the names of these processes
	Refusals RefusalCounts
	Meters   Meters
}

// ControlPlane is the data plane's interface to the control plane. Its methods do not
// block.
type ControlPlane interface {
	// Ask requests a home for a kind whose calls wait.
	Ask(kind string)
	// MoveDone reports that a shard runs here under a new epoch.
	MoveDone(id placement.ShardID, epoch placement.Epoch)
	// MoveAborted reports that a move was given up, so the shard stays here.
	MoveAborted(id placement.ShardID, epoch placement.Epoch, reason string)
	// Progress reports a change of the shard, for which the control loop may wait.
	Progress(id placement.ShardID)
	// Knows reports whether a process is a member.
	Knows(a transport.Address) bool
	// Suspect reports that nobody listens at the address, as the broker has told a lane.
	Suspect(a transport.Address)
	// ShardsOf returns the kind's number of shards at its hosts, or 0 if unknown.
	ShardsOf(kind string) uint32
	// TurnAway tells a client that it gets no session here.
	TurnAway(client transport.Peer, why string)
	// Escalate ends this process.
	Escalate(err error)
	// Why returns the latest reason why the kind has no home, or "" if there was none.
	Why(kind string, now time.Time) string
	// Waits returns why calls of the kind wait at the moment, and whether any member hosts the kind.
	Waits(kind string, now time.Time) (why string, hosted bool)
}

func (drv *Driver) runner(shard uint32) *TurnRunner { return &drv.Runners[int(shard)%len(drv.Runners)] }

// Open starts the lanes over an open link.
func (drv *Driver) Open(l transport.Link) {
	if began := len(drv.Sessions.All()); invariant.Enabled && began > 0 {
		invariant.Failf("%d sessions began before the link was open, and would never use it", began)
	}
	drv.tr.Store(&l)
	if d := drv.Direct.Load(); d != nil {
		d.Start()
	}
	for i := range drv.Config.Lanes {
		ch := transport.Channel(i)
		drv.lanes = append(drv.lanes, newLane(drv, ch, nil))
	}
	drv.Group.Go(func() { drv.watch.Run(drv.Stop) })
	drv.Group.Go(drv.sweepPending)
	for i, l := range drv.lanes {
		drv.Group.Go(l.run)
		drv.Group.Go(func() { drv.Sessions.RunPump(drv.Context, i) })
	}
}

// lately returns the time, at most about calls.SweepInterval old, for loops that cannot afford
// reading the clock.
func (drv *Driver) lately() time.Time {
	if at := drv.swept.Load(); at != 0 {
		return drv.Lease.Base().Add(time.Duration(at))
	}
	return time.Now()
}

const sweepClients = 5 * time.Second

// sweepPending ends expired calls, drops tells that waited too long, and ends the sessions of gone
// clients.
func (drv *Driver) sweepPending() {
	calls, tells := time.NewTicker(calls.SweepInterval), time.NewTicker(time.Second)
	defer calls.Stop()
	defer tells.Stop()
	clients := time.NewTicker(sweepClients)
	defer clients.Stop()
	for {
		select {
		case <-drv.Stop:
			return
		case <-calls.C:
			now := drv.Lease.Now()
			drv.swept.Store(now)
			drv.Pending.Sweep(now)
		case <-clients.C:
			drv.Sessions.SweepClients(time.Now())
		case <-tells.C:
			drv.DropTells(time.Now().Add(-drv.Config.CallTimeout)) // calls end at their own deadlines
		}
	}
}

// Knows reports whether a process is a member, has left, or was removed.
func (drv *Driver) Knows(a transport.Address) bool { return drv.Control.Knows(a) || drv.parted(a) }

func (drv *Driver) parted(a transport.Address) bool {
	return drv.Sessions.HasLeft(a) || drv.Sessions.WasRemoved(a)
}

// ConnState records a change of a lane's or the control channel's connection.
func (drv *Driver) ConnState(ch transport.Channel, s transport.State) {
	drv.Reach.Note(ch, s.Connected, time.Now())
	if s.Connected && ch != transport.Control {
		drv.Sessions.Rewind(ch)
	}
}

func (drv *Driver) Link() transport.Link {
	if l := drv.tr.Load(); l != nil {
		return *l
	}
	return NoLink{}
}

func (drv *Driver) Closed() bool {
	select {
	case <-drv.Stop:
		return true
	default:
		return false
	}
}

// Close fails every waiting call and stops timers. The goroutines of Group end only when the link
// is closed too.
func (drv *Driver) Close() {
	drv.Lease.End(runner.Over)
	drv.halt()
	if l := drv.Direct.Load(); l != nil {
		l.Close()
	}
	for _, p := range drv.Sessions.All() {
		left, _ := p.Close(false)
		drv.Undelivered.count(&drv.Counts, left)
	}
	drv.Pending.Close(calls.Result{Code: calls.Closed})
}

const minPayload = peers.MinPayload

// smallMessage is a size that every broker accepts, in bytes.
const smallMessage = minPayload / 2

func (drv *Driver) LaneOf(shard uint32) int { return laneOf(shard, drv.Config.Lanes) }

// Callable returns the Kind for the type c, which this process calls and may host. If this process
// already has a type of the same name from another package, calls of the returned Kind fail.
func (drv *Driver) Callable(c codegen.Kind) *Kind {
	k := drv.Kind(c)
	if k.Desc.Package == c.Package {
		return k
	}
	return &Kind{Driver: drv, Desc: c, name: k.name, Counts: k.Counts, Err: fmt.Errorf("%w: type %s is declared in packages %s and %s (set name= in the directive of one of them)",
		ErrMismatch, c.Name, k.Desc.Package, c.Package)}
}

// Kind returns this process's Kind with the name in the description c. If there is none yet, it
// adds one for c.
func (drv *Driver) Kind(c codegen.Kind) *Kind {
	if k := (*drv.Kinds.Load())[c.Name]; k != nil {
		return k
	}
	drv.kindsMu.Lock()
	defer drv.kindsMu.Unlock()
	old := *drv.Kinds.Load()
	if k := old[c.Name]; k != nil {
		return k
	}
	k := newKind(drv, c)
	next := maps.Clone(old)
	next[c.Name] = k
	drv.Kinds.Store(&next)
	k.adopt(nil, drv.ShardTable.Load())
	return k
}

// Singleton returns the singleton of that name, or nil if it cannot be called here.
func (drv *Driver) Singleton(name string) singlehost.Callable {
	k := (*drv.Kinds.Load())[name]
	if k == nil || !k.Desc.Singleton || k.Err != nil {
		return nil
	}
	return k
}

// SetTable replaces the shard table with a newer one, and updates routes and hosted shards.
func (drv *Driver) SetTable(t *placement.Table) {
	drv.kindsMu.Lock()
	old := drv.ShardTable.Load()
	drv.ShardTable.Store(t)
	kinds := *drv.Kinds.Load()
	drv.kindsMu.Unlock()
	drv.countMoves(old, t)
	for name, k := range kinds {
		if old.Type(name) != t.Type(name) || old.Version().Term != t.Version().Term {
			k.adopt(old, t)
		}
	}
}

// BeginAnew closes the sessions with all processes except members, and forgets the homes of shards,
// because the cluster was founded again. Calls that may have run fail with an unknown outcome;
// unsent calls wait for their shards' next homes.
func (drv *Driver) BeginAnew(members map[transport.Address]bool) {
	drv.kindsMu.Lock()
	drv.ShardTable.Store(nil)
	drv.kindsMu.Unlock()
	drv.Data.BeginAnew(members)
}

func (drv *Driver) countMoves(old, t *placement.Table) {
	for _, name := range t.Types() {
		was, is := old.Type(name), t.Type(name)
		if was == is || was == nil {
			continue
		}
		for e := range is.All() {
			if o, ok := was.Lookup(e.Shard); ok && !o.Home.IsZero() && o.Home != e.Home {
				drv.Counts.Add(tableMoved)
			}
		}
	}
}

// WaitLease waits until this node may run turns. It fails when ctx or the process ends, or when the
// lease is about to end for ever.
func (drv *Driver) WaitLease(ctx context.Context) error {
	return drv.waitUntil(ctx, drv.Lease.Valid, runner.Ending)
}

func (drv *Driver) waitAnswer() error {
	return drv.waitUntil(drv.Context, drv.Lease.MayAnswer, runner.Over)
}

// waitUntil waits until the function allowed returns true. It fails when ctx or the process ends,
// or when the lease reaches the phase tooLate.
func (drv *Driver) waitUntil(ctx context.Context, allowed func() bool, tooLate runner.Phase) error {
	for !allowed() {
		if drv.Lease.Phase() >= tooLate {
			return drv.ErrClosed()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-drv.Stop:
			return drv.ErrClosed()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// HeldFor returns the number of calls of a kind that wait for a home.
func (drv *Driver) HeldFor(name string) (n int) {
	k := (*drv.Kinds.Load())[name]
	if k == nil || drv.held.Load() == 0 {
		return 0
	}
	for i := range k.routes {
		r := &k.routes[i]
		r.Mu.Lock()
		n += r.Core.Held()
		r.Mu.Unlock()
	}
	return n
}

// pause waits before a further attempt while the shard table and this process disagree about a
// shard's home. try is the number of that attempt. pause fails after 5,000 attempts, about 5 s, and
// when the driver is closed.
func (drv *Driver) pause(try int) error {
	switch {
	case try < 3:
		return nil
	case drv.Closed():
		return drv.ErrClosed()
	case try > 5000:
		return fmt.Errorf("%w: the shard table and this process disagree about the shard's home (retry later)", ErrNoHost)
	}
	time.Sleep(time.Millisecond)
	return nil
}

func (drv *Driver) refused(code wire.Code) {
	drv.Counts.Add(callRefused)
	drv.Refusals.note(code)
}

func (drv *Driver) loseTell(kind, entity, method string) {
	drv.Counts.Add(tellLost)
	drv.Limiter.Warn(drv.Logger, "tell lost: its shard had no home for too long, or was lost", kind, "",
		"kind", kind, "entity", clip(entity), "method", clip(method))
}

func (drv *Driver) answerCode(c *InCall, code wire.Code, text string) {
	drv.refused(code)
	if c.ID == 0 {
		drv.Counts.Add(tellLost)
		return
	}
	drv.answer(c, &wire.Envelope{Type: wire.TypeAnswer, ID: c.ID, Code: code, Text: []byte(text)}, nil)
}

func (drv *Driver) answer(c *InCall, e *wire.Envelope, by peers.Publisher) {
	if c.ID == 0 {
		return
	}
	if c.Sender.Address == drv.Local.Address {
		drv.answerHere(e)
		return
	}
	if c.from != nil && c.Via.IsZero() && c.from.Answer(e, by) {
		return
	}
	// The call was forwarded, or its sender is new on this lane.
	if p := drv.Sessions.Session(c.Sender, c.lane); p == nil || !p.Answer(e, by) {
		drv.Counts.Add(dropNoPeer)
	}
}

// Counters returns the counters by the names of their reasons.
func (drv *Driver) Counters() map[string]uint64 {
	m := drv.Counts.snapshot()
	m["frames sent"], m["frames sent directly"] = drv.Sessions.Frames()
	return m
}

// AddSeldomOf counts an event caused by the process with that name. It returns the number of such
// events of the name, and whether to log this one.
func (drv *Driver) AddSeldomOf(what Reason, name string) (n uint64, tell bool) {
	drv.Counts.Add(what)
	return drv.outside.count(what.String(), name, "")
}

func laneOf(shard uint32, lanes int) int {
	aligned := uint64(shard) << (64 - bits.Len32(shard)) << 1 // the number without its leading 1, at the top of the 64 bits
	hi, _ := bits.Mul64(aligned, uint64(lanes))
	return int(hi)
}

// NoLink is a process's link before Start. Nothing can be sent on it, so calls wait.
type NoLink struct{ transport.Link }

func (NoLink) Send(transport.Channel, transport.Peer, uint64, []byte) error {
	return transport.ErrDisconnected
}

func (NoLink) MaxPayload() int { return 1 << 20 }

// ErrClosed returns ErrClosed with this process's name and the remedy.
func (drv *Driver) ErrClosed() error {
	if drv.Local.Client {
		return fmt.Errorf("%w: connection %s has ended (call Dial again)", ErrClosed, drv.Local.Name)
	}
	return fmt.Errorf("%w: node %s has ended (its Err has the reason; make calls at another node, or start a new one)", ErrClosed, drv.Local.Name)
}

// MaxResult is the largest result, in bytes, that fits the broker's payload limit.
func (drv *Driver) MaxResult() int {
	return max(drv.Link().MaxPayload(), minPayload) - wire.MaxFrameHeader - wire.Overhead
}

// DropTells drops tells that began to wait for a home before limit, and returns their number.
func (drv *Driver) DropTells(limit time.Time) (dropped int) {
	if drv.held.Load() == 0 {
		return 0
	}
	for name, k := range *drv.Kinds.Load() {
		n := 0
		for i := range k.routes {
			n += k.routes[i].dropTells(limit)
		}
		if n > 0 {
			drv.Counts.addN(tellLost, n)
			drv.Undelivered.Unsent.Add(int64(n))
			drv.Logger.Warn("tells dropped: their shards found no home", "kind", name, "tells", n, "why", drv.Control.Why(name, time.Now()))
		}
		dropped += n
	}
	return dropped
}

func (drv *Driver) answerHere(e *wire.Envelope) {
	if !drv.Data.Answer(e) {
		drv.Counts.Add(answerUnclaimed)
	}
}

func (drv *Driver) complete(id uint64, a answer) {
	text, payload := a.parts(drv)
	if !drv.Pending.Complete(id, calls.Result{Payload: payload, Code: a.code, Text: text}) {
		drv.Counts.Add(answerUnclaimed)
	}
}

// A Signal wakes a goroutine that receives from it. Signals sent while nobody receives count as
// one.
type Signal chan struct{}

func newSignal() Signal { return make(Signal, 1) }

// Notify wakes a receiver, unless one is already being woken. It never blocks.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// NewDriver returns the driver of a process that is not connected yet.
func NewDriver(cfg Config, self transport.Peer, ctl ControlPlane) *Driver {
	drv := &Driver{
		Turns: operator.NewTurnLog(time.Now()), Trend: operator.NewTrend(time.Now()),
		Config: cfg, Local: self, Logger: cfg.Logger, Control: ctl, ChecksTurns: checksTurns(), tracing: newTracing(cfg.Tracing),
	}
	drv.Group.Init()
	drv.Load = NewLoadMeter(cfg.Capacity, cfg.Zone, os.DirFS("/"))
	drv.looks.init()
	drv.outboxes = make([]outbox, max(runtime.GOMAXPROCS(0), minRunners)/2)
	for i := range drv.outboxes {
		drv.outboxes[i].driver = drv
	}
	drv.Budget = region.NewBudget(cfg.BufferBytes)
	drv.Context, drv.halt = context.WithCancel(context.Background())
	drv.Stop = drv.Context.Done()
	drv.Turning.init(drv.Context)
	if cfg.Store != nil {
		drv.Durable = &durablehost.Process{
			Cluster: cfg.Cluster, Store: cfg.Store, Ctx: drv.Context, Log: cfg.Logger,
			Spawn: func(f func()) {
				if !drv.Closed() {
					drv.Group.Go(f)
				}
			},
			Clock: durablehost.NewClock(cfg.Store),
			Send:  drv.sendTells, GivenUp: drv.tellGivenUp, LookAt: drv.lookAt,
		}
	}
	drv.Kinds.Store(&map[string]*Kind{})
	drv.Data.Init((*dataEnv)(drv))
	drv.Sessions.Init(&peersEnv{driver: drv}, peers.Config{ // Start reports errors of cfg
		Self: self, Lanes: cfg.Lanes, Window: cfg.Window, MaxBuffered: cfg.MaxBuffered,
		AnswerBytes: cfg.AnswerBytes, Calls: &drv.Pending.Coalescer, Direct: cfg.directEnabled(),
		Link: drv.Link, MayAnswer: drv.Lease.MayAnswer,
	})
	drv.Pending.Init(calls.NewCaller)
	drv.Lease.Init(time.Now())
	drv.watch.Init(drv.Lease.Base())
	drv.Runners = make([]TurnRunner, max(runtime.GOMAXPROCS(0), minRunners))
	for i := range drv.Runners {
		drv.Runners[i].Init(&drv.Group, &drv.watch, &drv.Runners[i])
		drv.Runners[i].SetMost(cfg.RunnerBytes(len(drv.Runners)))
	}
	return drv
}

// minRunners is the least number of runners. With fewer runners, turns of almost a millisecond
// would wait for each other too long.
const minRunners = 4

// forgottenFirst and forgottenRest are the times before the first and the later sweeps of a durable
// type without ttl. Such sweeps only find records of forgotten entities.
const (
	forgottenFirst = time.Hour
	forgottenRest  = 24 * time.Hour
)

func sweepOf(ttl time.Duration) durablehost.Sweep {
	if ttl > 0 {
		return durablehost.Sweep{On: true}
	}
	return durablehost.Sweep{On: true, First: forgottenFirst, Rest: forgottenRest}
}

// A Pulse measures how long a function posted to a loop has waited to run. The zero value is ready
// for use. It is safe for concurrent use.
type Pulse struct {
	asked atomic.Int64 // when the waiting function was posted; 0 means none waits
}

// Beat posts a function to the loop, unless the function posted before still waits. now is a time
// of the lease's clock, above 0.
func (p *Pulse) Beat(now int64, post func(func())) {
	if p.asked.CompareAndSwap(0, now) {
		post(func() { p.asked.Store(0) })
	}
}

// Stuck returns how long the last posted function has waited; 0 if it has run.
func (p *Pulse) Stuck(now int64) time.Duration {
	if asked := p.asked.Load(); asked != 0 {
		return max(time.Duration(now-asked), 0)
	}
	return 0
}

// Reach records since when each channel has had no connection to the broker. It is safe
// for concurrent use.
type Reach struct {
	mu    sync.Mutex
	since map[transport.Channel]time.Time
}

func (r *Reach) Note(ch transport.Channel, connected bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if connected {
		delete(r.since, ch)
		return
	}
	if r.since == nil {
		r.since = map[transport.Channel]time.Time{}
	}
	if _, ok := r.since[ch]; !ok {
		r.since[ch] = now
	}
}

// Away returns for how long one of the channels has had no connection to the broker: the longest
// such time, or 0 if all channels have a connection.
func (r *Reach) Away(now time.Time, channels ...transport.Channel) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ch := range channels {
		if since, ok := r.since[ch]; ok {
			longest = max(longest, now.Sub(since), time.Millisecond)
		}
	}
	return longest
}
