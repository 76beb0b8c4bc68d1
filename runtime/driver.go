package shard

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/calls"
	"github.com/shardgen/shardgen/internal/direct"
	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/remembering"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/tasks"
	"github.com/shardgen/shardgen/internal/turnlease"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// driver is the data plane of one process: lanes, sessions to peers, routes and
// pending calls. A node has one, and so has a connection from outside, which
// hosts nothing. It exists before Start, so that clients can be made and calls
// wait; open connects it.
type driver struct {
	cfg      config
	self     transport.Peer
	log      *slog.Logger
	ctl      controlPlane
	counters counters
	lease    turnlease.Lease
	memory   *remembering.Memory // a node's

	group   tasks.Group     // every goroutine of the process
	ctx     context.Context // ends with close
	halt    context.CancelFunc
	turning turning         // of the turns of encoded calls
	stop    <-chan struct{} // ctx.Done()

	tr    atomic.Pointer[transport.Link]
	lanes []*lane
	runs  []turnRunner
	alone atomic.Int64 // turns of remote calls with a goroutine of their own
	// answering is the number of turns that end on goroutines other than the
	// lanes', each counted from before its end until its answer is in its session.
	answering atomic.Int64
	watch     runtoken.Watchdog

	leaving atomic.Bool // this node gives its shards away, to leave the cluster
	exiting atomic.Bool // this node has nothing left to give away: it takes no shard any more

	pending  calls.Table
	held     atomic.Int64   // calls held in routes
	budget   *region.Budget // bytes of calls that wait, in routes and hosted shards
	clock    atomic.Uint32
	turns    atomic.Pointer[operator.TurnWatch] // nil: no operator looks
	failures operator.FailureLog                // of calls of entities here, for operators
	swept    atomic.Int64                       // when pending was last swept, in nanoseconds after the lease's base

	commands durablehost.Source   // of this process's calls to durable types
	durable  *durablehost.Process // of a node with a store; else nil
	limits   durable.Limits       // of its durable shards; tests have other ones than the defaults
	follows  atomic.Uint64        // loops of this process that have followed events under a name
	// checksTurns is the result of the function checksTurns.
	checksTurns bool

	lost   lostTells
	seldom seldom

	direct atomic.Pointer[direct.Lanes] // nil: Config.Direct is not set, or the process has not started

	peers peers.Set
	data  calls.Plane // refusals, moves, departed peers
	reach reach

	kindsMu sync.Mutex
	kinds   atomic.Pointer[map[string]*kind] // copied on write
	table   atomic.Pointer[placement.Table]

	thinned  thinned
	refusals refusalCounts
	meters   meters
}

// controlPlane is the data plane's interface to the control plane. Its methods do not
// block.
type controlPlane interface {
	// ask requests a home for a kind whose calls wait.
	ask(kind string)
	// moveDone reports that a shard runs here under a new epoch.
	moveDone(id placement.ShardID, epoch placement.Epoch)
	// moveAborted reports that a shard that was to move stays here.
	moveAborted(id placement.ShardID, epoch placement.Epoch, reason string)
	// progress reports a change of the shard for which others may wait.
	progress(id placement.ShardID)
	// knows reports whether a process is a member.
	knows(a transport.Address) bool
	// suspect reports that nobody listens at the address.
	suspect(a transport.Address, server string)
	// shardsOf returns the number of shards that the cluster's hosts give the kind,
	// or 0 if it is unknown.
	shardsOf(kind string) uint32
	// turnAway tells a client that it gets no session here.
	turnAway(client transport.Peer, why string)
	// escalate ends this process.
	escalate(err error)
	// why returns the latest reason why the kind has no home, as text, or "" if
	// there was none.
	why(kind string, now time.Time) string
	// waits returns the reason, as text, why calls of the kind wait at the moment, and
	// whether any member hosts it.
	waits(kind string, now time.Time) (why string, hosted bool)
}

// runner returns the runner for a shard's turns.
func (drv *driver) runner(shard uint32) *turnRunner { return &drv.runs[int(shard)%len(drv.runs)] }

// open starts the lanes over an open link.
func (drv *driver) open(l transport.Link) {
	if began := len(drv.peers.All()); invariant.Enabled && began > 0 {
		invariant.Failf("%d sessions began before the link was open, and would never use it", began)
	}
	drv.tr.Store(&l)
	if d := drv.direct.Load(); d != nil {
		d.Start()
	}
	for i := range drv.cfg.Lanes {
		ch := transport.Channel(i)
		drv.lanes = append(drv.lanes, newLane(drv, ch, nil))
	}
	drv.group.Go(func() { drv.watch.Run(drv.stop) })
	drv.group.Go(drv.sweepPending)
	for i, l := range drv.lanes {
		drv.group.Go(l.run)
		drv.group.Go(func() { drv.peers.RunPump(drv.ctx, i) })
	}
}

// lately returns a time that is at most about calls.SweepInterval ago. It bounds waiting where
// reading the clock would cost more than the rest.
func (drv *driver) lately() time.Time {
	if at := drv.swept.Load(); at != 0 {
		return drv.lease.Base().Add(time.Duration(at))
	}
	return time.Now()
}

// sweepClients is how often clients that are gone are looked for.
const sweepClients = 5 * time.Second

// sweepPending ends calls whose deadlines have passed, every second drops tells that waited
// too long, and from time to time ends the sessions of clients that are gone.
func (drv *driver) sweepPending() {
	calls, tells := time.NewTicker(calls.SweepInterval), time.NewTicker(time.Second)
	defer calls.Stop()
	defer tells.Stop()
	clients := time.NewTicker(sweepClients)
	defer clients.Stop()
	for {
		select {
		case <-drv.stop:
			return
		case <-calls.C:
			now := drv.lease.Now()
			drv.swept.Store(now)
			drv.pending.Sweep(now)
		case <-clients.C:
			drv.peers.SweepClients(time.Now())
		case <-tells.C:
			drv.dropTells(time.Now().Add(-drv.cfg.CallTimeout)) // calls end at their own deadlines
		}
	}
}

// Knows reports whether a process is a member, or was one until it left or was removed.
func (drv *driver) Knows(a transport.Address) bool { return drv.ctl.knows(a) || drv.parted(a) }

// parted reports whether a member has left, or was removed.
func (drv *driver) parted(a transport.Address) bool {
	return drv.peers.HasLeft(a) || drv.peers.WasRemoved(a)
}

// connState follows a lane's connection, or that of the control channel.
func (drv *driver) connState(ch transport.Channel, s transport.State) {
	drv.reach.note(ch, s.Connected, time.Now())
	if s.Connected && ch != transport.Control {
		drv.peers.Rewind(ch)
	}
}

func (drv *driver) link() transport.Link {
	if l := drv.tr.Load(); l != nil {
		return *l
	}
	return noLink{}
}

func (drv *driver) closed() bool {
	select {
	case <-drv.stop:
		return true
	default:
		return false
	}
}

// close fails every waiting call and stops timers. The goroutines of the group end when the link
// is closed, too.
func (drv *driver) close() {
	drv.lease.End(turnlease.Over)
	drv.halt()
	if l := drv.direct.Load(); l != nil {
		l.Close()
	}
	for _, p := range drv.peers.All() {
		left, _ := p.Close(false)
		drv.lost.count(&drv.counters, left)
	}
	drv.pending.Close(calls.Result{Code: calls.Closed})
}

// minPayload is the smallest payload limit of the broker that a process accepts, in
// bytes.
const minPayload = peers.MinPayload

// smallMessage is a size in bytes that fits any broker, so that smaller messages need no look at
// the limit.
const smallMessage = minPayload / 2

func (drv *driver) laneOf(shard uint32) int { return laneOf(shard, drv.cfg.Lanes) }

// callable is kind for a process that may host the type. A type whose name another
// package's type has at this process cannot be called.
func (drv *driver) callable(c codegen.Kind) *kind {
	k := drv.kind(c)
	if k.desc.Package == c.Package {
		return k
	}
	return &kind{driver: drv, desc: c, name: k.name, err: fmt.Errorf("%w: type %s is one of %s and one of %s (set name= in one's directive)",
		ErrMismatch, c.Name, k.desc.Package, c.Package)}
}

// kind returns the kind of this process, which it adds if it is new.
func (drv *driver) kind(c codegen.Kind) *kind {
	if k := (*drv.kinds.Load())[c.Name]; k != nil {
		return k
	}
	drv.kindsMu.Lock()
	defer drv.kindsMu.Unlock()
	old := *drv.kinds.Load()
	if k := old[c.Name]; k != nil {
		return k
	}
	k := newKind(drv, c)
	next := maps.Clone(old)
	next[c.Name] = k
	drv.kinds.Store(&next)
	k.adopt(nil, drv.table.Load())
	return k
}

// singleton returns the singleton of that name, or nil if it cannot be called here.
func (drv *driver) singleton(name string) singlehost.Callable {
	k := (*drv.kinds.Load())[name]
	if k == nil || !k.desc.Singleton || k.err != nil {
		return nil
	}
	return k
}

// setTable takes a newer table: routes and hosted shards follow it.
func (drv *driver) setTable(t *placement.Table) {
	drv.kindsMu.Lock()
	old := drv.table.Load()
	drv.table.Store(t)
	kinds := *drv.kinds.Load()
	drv.kindsMu.Unlock()
	drv.countMoves(old, t)
	for name, k := range kinds {
		if old.Type(name) != t.Type(name) || old.Version().Term != t.Version().Term {
			k.adopt(old, t)
		}
	}
}

// beginAnew closes the sessions with all processes except members, and forgets the homes
// of shards. Calls that certainly did not run wait for the next home; those that may
// have run fail with an unknown outcome.
func (drv *driver) beginAnew(members map[transport.Address]bool) {
	drv.kindsMu.Lock()
	drv.table.Store(nil)
	drv.kindsMu.Unlock()
	drv.data.BeginAnew(members)
}

// countMoves counts the shards whose home has changed.
func (drv *driver) countMoves(old, t *placement.Table) {
	for _, name := range t.Types() {
		was, is := old.Type(name), t.Type(name)
		if was == is || was == nil {
			continue
		}
		for e := range is.All() {
			if o, ok := was.Lookup(e.Shard); ok && !o.Home.IsZero() && o.Home != e.Home {
				drv.counters.add(tableMoved)
			}
		}
	}
}

// waitLease waits until this node may run turns. It fails when ctx ends first,
// and at once when the node ends.
func (drv *driver) waitLease(ctx context.Context) error {
	return drv.waitUntil(ctx, drv.lease.Valid, turnlease.Ending)
}

// waitAnswer waits until this node may answer. It fails when it never may again.
func (drv *driver) waitAnswer() error {
	return drv.waitUntil(drv.ctx, drv.lease.MayAnswer, turnlease.Over)
}

// waitUntil waits until allowed reports true. It fails when ctx ends, or the lease is in that phase or a
// later one.
func (drv *driver) waitUntil(ctx context.Context, allowed func() bool, tooLate turnlease.Phase) error {
	for !allowed() {
		if drv.lease.Phase() >= tooLate {
			return drv.errClosed()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-drv.stop:
			return drv.errClosed()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// heldFor counts the calls of a kind that wait for a home.
func (drv *driver) heldFor(name string) (n int) {
	k := (*drv.kinds.Load())[name]
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

// pause delays a loop that waits until the table and this process agree about a home.
// It returns an error when they do not agree in time.
func (drv *driver) pause(try int) error {
	switch {
	case try < 3:
		return nil
	case drv.closed():
		return drv.errClosed()
	case try > 5000:
		return fmt.Errorf("%w: the table and this process do not agree about its home (retry later)", ErrNoHost)
	}
	time.Sleep(time.Millisecond)
	return nil
}

// refused counts a call that was refused with a code.
func (drv *driver) refused(code wire.Code) {
	drv.counters.add(callRefused)
	drv.refusals.note(code)
}

// loseTell counts a tell that was accepted and will not run, and logs some of them.
func (drv *driver) loseTell(kind, entity, method string) {
	drv.counters.add(tellLost)
	drv.seldom.warn(drv.log, "tell lost: its shard has no home for too long, or was lost", kind, "",
		"kind", kind, "entity", clip(entity), "method", clip(method))
}

// answerCode answers a call that was accepted and then could not run.
func (drv *driver) answerCode(c *inCall, code wire.Code, text string) {
	drv.refused(code)
	if c.ID == 0 {
		drv.counters.add(tellLost)
		return
	}
	drv.answer(c, &wire.Envelope{Type: wire.TypeAnswer, ID: c.ID, Code: code, Text: []byte(text)}, nil)
}

// answer brings an answer to the call's sender: to the pending table of this process, or
// to the sender's session. by publishes it; if by is nil it is published at once.
func (drv *driver) answer(c *inCall, e *wire.Envelope, by peers.Publisher) {
	if c.ID == 0 {
		return
	}
	if c.Sender.Address == drv.self.Address {
		drv.answerHere(e)
		return
	}
	if c.from != nil && c.Via.IsZero() && c.from.Answer(e, by) {
		return
	}
	// The call was forwarded, or its sender is new on this lane.
	if p := drv.peers.Session(c.Sender, c.lane); p == nil || !p.Answer(e, by) {
		drv.counters.add(dropNoPeer)
	}
}

// Counters returns the counters by the names of their reasons.
func (drv *driver) Counters() map[string]uint64 {
	m := drv.counters.snapshot()
	m["frames sent"], m["frames sent directly"] = drv.peers.Frames()
	return m
}

// addSeldomOf counts an event that a process of that name has caused. It reports whether to log it,
// and how often the name has caused such events.
func (drv *driver) addSeldomOf(what reason, name string) (n uint64, tell bool) {
	drv.counters.add(what)
	return drv.thinned.tell(what, name)
}

// laneOf is the lane of a shard, which the top bits of the hashes of its ids choose.
func laneOf(shard uint32, lanes int) int {
	aligned := uint64(shard) << (64 - bits.Len32(shard)) << 1 // the prefix without its leading 1
	hi, _ := bits.Mul64(aligned, uint64(lanes))
	return int(hi)
}

// noLink is the link before Start, on which everything waits.
type noLink struct{ transport.Link }

func (noLink) Send(transport.Channel, transport.Peer, uint64, []byte) error {
	return transport.ErrDisconnected
}

func (noLink) MaxPayload() int { return 1 << 20 }

// errClosed is the ErrClosed of this process, with the remedy.
func (drv *driver) errClosed() error {
	if drv.self.Client {
		return fmt.Errorf("%w: connection %s has ended (Dial anew)", ErrClosed, drv.self.Name)
	}
	return fmt.Errorf("%w: node %s has ended (its Err has the reason; make calls at another node, or start a new one)", ErrClosed, drv.self.Name)
}

// maxResult is the largest result, in bytes, that fits the broker's payload limit.
func (drv *driver) maxResult() int {
	return max(drv.link().MaxPayload(), minPayload) - wire.MaxFrameHeader - wire.Overhead
}

// dropTells drops the tells that have waited for a home since before limit, and counts
// them.
func (drv *driver) dropTells(limit time.Time) (dropped int) {
	if drv.held.Load() == 0 {
		return 0
	}
	for name, k := range *drv.kinds.Load() {
		n := 0
		for i := range k.routes {
			n += k.routes[i].dropTells(limit)
		}
		if n > 0 {
			drv.counters.addN(tellLost, n)
			drv.lost.unsent.Add(int64(n))
			drv.log.Warn("tells dropped: their shards found no home", "kind", name, "tells", n, "why", drv.ctl.why(name, time.Now()))
		}
		dropped += n
	}
	return dropped
}

// answerHere passes an answer of this process to its caller.
func (drv *driver) answerHere(e *wire.Envelope) {
	if !drv.data.Answer(e) {
		drv.counters.add(answerUnclaimed)
	}
}

// complete answers a call of this process whose turn has run here.
func (drv *driver) complete(id uint64, a answer) {
	text, payload := a.parts(drv)
	if !drv.pending.Complete(id, calls.Result{Payload: payload, Code: a.code, Text: text}) {
		drv.counters.add(answerUnclaimed)
	}
}
