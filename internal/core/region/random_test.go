package region

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// handoffs has the ways to move. The default occurs more often than the others.
var handoffs = []Handoff{
	{},
	{},
	{},
	{Serving: true},
	{DropCalls: true},
	{Unordered: true},
	{Refusing: true},
	{Serving: true, Unordered: true},
	{DropCalls: true, Unordered: true, Refusing: true, DropState: true},
}

// A dice gives a shard random commands, legal or not, and keeps account of every
// call and every turn.
type dice struct {
	r       *rand.Rand
	s       *Shard
	now     time.Time
	waiting map[*Call]bool // taken in, not come out
	turns   map[*Entity]bool
	stopped []*Entity // between Stop and Stopped
	shown   []*Entity // by Survey, now or before
	moveE   placement.Epoch
	seen    map[State]map[State]bool
	told    map[*Entity]int   // tells of the turn under way that are not over
	joined  int               // tells that joined a turn under way
	left    int               // turns that ended outside the lock
	named   map[*Entity]*Call // the call whose turn is under way
	settled bool
	log     []string
	err     error
}

func newDice(seed uint64, seen map[State]map[State]bool) *dice {
	r := rand.New(rand.NewPCG(seed, 7))
	return &dice{
		r: r, now: time.Unix(1000, 0), waiting: map[*Call]bool{}, turns: map[*Entity]bool{}, told: map[*Entity]int{}, seen: seen,
		named: map[*Entity]*Call{},
		s: New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), Limits{
			Mailbox: 1 + r.IntN(6), Waiting: 1 + r.IntN(20), Handoff: handoffs[r.IntN(len(handoffs))],
			MailboxBytes: 100 + r.IntN(400), ShardBytes: 100 + r.IntN(900), Budget: NewBudget(100 + r.IntN(900)),
		}),
	}
}

func (d *dice) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

func (d *dice) node() transport.Address { return node([]string{"a", "b", "c", "d"}[d.r.IntN(4)]) }

func (d *dice) other() transport.Address { return node([]string{"b", "c", "d"}[d.r.IntN(3)]) }

func (d *dice) entity() string { return []string{"x", "y", "z"}[d.r.IntN(3)] }

// epoch returns a random epoch, mostly near the shard's own.
func (d *dice) epoch() placement.Epoch {
	e := max(d.s.Epoch(), d.s.moveE, 3)
	return e + placement.Epoch(d.r.IntN(5)) - 2
}

// step does one random thing.
func (d *dice) step() {
	before := d.s.State()
	d.now = d.now.Add(time.Duration(d.r.IntN(200)) * time.Millisecond)
	switch n := d.r.IntN(40); {
	case n < 12:
		d.deliver()
	case n < 18:
		d.end()
	case n < 30:
		d.move(n)
	default:
		d.barriers(n)
	}
	after := d.s.State()
	if before != after {
		if d.seen[before] == nil {
			d.seen[before] = map[State]bool{}
		}
		d.seen[before][after] = true
	}
	if err := d.s.Check(); err != nil {
		d.fail("%v", err)
	}
	d.count()
}

func (d *dice) deliver() {
	if d.r.IntN(5) == 0 {
		d.s.Direct(d.r.IntN(4) > 0)
		id := d.entity()
		e := d.s.Look(Hash(id), id)
		if e != nil && d.r.IntN(2) == 0 {
			d.tell(e)
			return
		}
		fast := e != nil && e.Enter(1, 0) == Entered
		if !fast {
			e = d.s.Begin(id, 0)
		}
		if e != nil {
			d.begin(e)
		}
		d.log = append(d.log, fmt.Sprintf("begin %s %v", id, fast))
		return
	}
	c := &Call{Entity: d.entity(), Sender: transport.Peer{Address: d.node()}, Epoch: d.epoch(), Local: d.r.IntN(6) == 0, Size: d.r.IntN(100)}
	if d.r.IntN(3) == 0 {
		c.Via = d.other()
	}
	if d.r.IntN(6) == 0 {
		c.Chain = links{entity: d.r.IntN(2) == 0}
	}
	d.log = append(d.log, fmt.Sprintf("call %+v", *c))
	before := d.s.waiting.len()
	e, v := d.s.Deliver(c, 0, d.now)
	if after := d.s.waiting.len(); after > before && after > d.s.limits.Waiting {
		d.fail("%d calls wait in the shard, the limit is %d", after, d.s.limits.Waiting)
	}
	switch v {
	case Run:
		d.begin(e)
		d.named[e] = c
	case Queued:
		d.waiting[c] = true
	case Forward:
		if to, _ := d.s.Successor(c); to.IsZero() {
			d.fail("forward, and nobody to forward to")
		}
	}
}

// tell makes a tell join a turn of the entity, or takes a tell back.
func (d *dice) tell(e *Entity) {
	if d.told[e] > 0 && d.r.IntN(6) == 0 {
		d.log = append(d.log, "untell "+e.ID)
		last := d.told[e] == 1
		how := e.Unjoin()
		if d.told[e]--; !last && how != Refused {
			d.fail("%s has other tells, and Unjoin says %v", e.ID, how)
		}
		if last {
			delete(d.turns, e)
		}
		if how == Withdrawn {
			d.ended(e)
		}
		return
	}
	most := d.r.IntN(d.s.limits.Mailbox + 1)
	how := e.Join(most, 1)
	d.log = append(d.log, fmt.Sprintf("tell %s, most %d: %v", e.ID, most, how))
	waiting := d.told[e] - 1
	switch {
	case how == Entered && d.told[e] == 0:
		d.begin(e)
	case how == Entered && (waiting >= most || !d.turns[e]), how == Full && waiting < most:
		d.fail("%s: %d tells wait, at most %d, and Join says %v", e.ID, waiting, most, how)
	case how == Entered:
		d.joined++
	}
	if how == Entered {
		d.told[e]++
	}
}

func (d *dice) begin(e *Entity) {
	if d.turns[e] {
		d.fail("%s has two turns", e.ID)
	}
	d.turns[e] = true
	e.Value = "value"
	e.SetState(nil, codegen.Fresh)
}

func (d *dice) end() {
	var busy []*Entity
	for e := range d.turns {
		busy = append(busy, e)
	}
	if len(busy) == 0 {
		return
	}
	slices.SortFunc(busy, func(a, b *Entity) int {
		if a.ID != b.ID {
			return map[bool]int{true: -1, false: 1}[a.ID < b.ID]
		}
		return map[bool]int{true: 1, false: -1}[a.has(orphan)]
	})
	e := busy[0]
	delete(d.turns, e)
	if d.r.IntN(4) == 0 {
		e.Value = nil // forgotten
	}
	d.log = append(d.log, "end "+e.ID)
	left, more := e.Leave(0)
	if more != (d.told[e] > 1) {
		d.fail("%s has %d tells, and the turn goes on: %v", e.ID, d.told[e], more)
	}
	d.told[e] = max(d.told[e]-1, 0)
	switch {
	case more:
		d.turns[e] = true
		if d.r.IntN(2) == 0 {
			e.Value = "value" // the next one has activated it
		}
	case left:
		if d.left++; d.named[e] != nil {
			d.fail("the turn of %s ended outside the lock although its call is known", e.ID)
		}
	default:
		d.ended(e)
	}
}

// ended ends a turn under the lock.
func (d *dice) ended(e *Entity) {
	over := d.named[e]
	delete(d.named, e)
	next, _ := d.s.End(e, 0)
	if c, _ := d.s.Find(e.ID, func(c *Call) bool { return c == over }); c != nil {
		d.fail("a call of %s is found after its turn", e.ID)
	}
	if next != nil {
		d.come(next)
		d.begin(e)
		d.named[e] = next
	}
}

func (d *dice) come(c *Call) {
	if !d.waiting[c] {
		d.fail("a call of epoch %v comes out that did not wait", c.Epoch)
	}
	delete(d.waiting, c)
}

func (d *dice) move(n int) {
	e := d.epoch()
	from := d.other()
	if d.r.IntN(4) > 0 {
		e = d.s.moveE // as if the other side answered
		from = d.s.peer
	}
	d.log = append(d.log, fmt.Sprintf("move %d %v %v", n, e, from))
	switch n {
	case 18, 19:
		d.effects(d.s.BeginMove(d.other(), d.epoch()))
	case 20, 21:
		if entities, ok := d.s.Stop(); ok {
			d.stopped, d.moveE = entities, d.s.MoveEpoch()
			if len(d.stopped) == 0 {
				d.stopped = []*Entity{}
			}
		}
	case 22, 23:
		if d.stopped == nil {
			return
		}
		if len(d.stopped) > 0 && d.r.IntN(2) == 0 { // one hook of several
			d.passivate()
			return
		}
		for d.passivate() {
		}
		d.stopped = nil
		fx, _ := d.s.Stopped(d.moveE, 0)
		d.effects(fx)
	case 24, 25:
		d.effects(d.s.Ready(from, e))
	case 26:
		d.s.Prepare(d.other(), d.epoch(), map[string][]byte{"x": nil, "y": []byte("state")}, d.r.IntN(2) == 0)
	case 27:
		d.effects(d.s.OpenAt(from, e, 0, d.now))
	case 28:
		fx, _ := d.s.CancelMove(d.epoch())
		d.effects(fx)
	case 29:
		d.effects(d.s.Place(d.node(), d.epoch(), d.r.IntN(10) == 0, 0, d.now))
	}
}

// passivate runs the next stop hook, if the move still allows it.
func (d *dice) passivate() bool {
	if len(d.stopped) == 0 {
		return false
	}
	e := d.stopped[0]
	if !d.s.MayPassivate(e) {
		return false
	}
	if d.turns[e] {
		d.fail("%s is passivated and has a turn", e.ID)
	}
	d.stopped = d.stopped[1:]
	e.Value = nil
	e.SetState([]byte("state"), codegen.Reactivated)
	return true
}

func (d *dice) barriers(n int) {
	gone := d.other()
	is := func(a transport.Address) bool { return a == gone }
	f := Flush{Sender: transport.Peer{Address: d.node()}, Via: transport.Peer{Address: d.other()}, Epoch: d.epoch(), Hop: d.epoch()}
	d.log = append(d.log, fmt.Sprintf("barriers %d %+v", n, f))
	switch n {
	case 30, 31:
		d.effects(d.s.CloseBarrier(f.Sender.Address, f.Via.Address, f.Epoch, false, 0, d.now))
	case 32:
		f.Via.Address, f.To = node("a"), d.node()
		d.effects(d.s.Flush(f, 0, d.now))
	case 33, 34:
		if len(d.s.barriers.closed) > 0 {
			p := d.s.barriers.closed[0].flushKey
			f.Sender.Address, f.Via.Address, f.Epoch = p.sender, p.via, p.epoch
		}
		d.effects(d.s.Flushed(f, 0, d.now))
	case 35:
		d.s.Settle(d.now)
		d.settled = d.settled || d.s.Settled()
		d.effects(d.s.OpenBarriers(func(transport.Address) bool { return false }, 0, d.now))
	case 36:
		d.effects(d.s.Depart(is, false, nil, 0, d.now))
		d.effects(d.s.OpenBarriers(is, 0, d.now))
	case 37:
		for _, c := range d.s.Expire(d.now.Add(-time.Second)) {
			d.come(c)
		}
	case 38:
		if d.r.IntN(2) == 0 {
			d.survey()
			return
		}
		for _, e := range d.s.Idle(^uint32(0), 2) {
			d.begin(e)
		}
	case 39:
		if c, running := d.s.Find(d.entity(), func(c *Call) bool { return c.Local }); c != nil && !running {
			if !d.s.Cancel(c) {
				d.fail("found and not withdrawn")
			}
			d.come(c)
		}
	}
}

// survey examines some of the active entities. It passivates some of those that this survey or an
// earlier one has found.
func (d *dice) survey() {
	d.s.Survey(1+d.r.IntN(3), func(e *Entity, _ uint32) { d.shown = append(d.shown, e) })
	for _, e := range d.shown {
		if d.r.IntN(2) == 0 && d.s.BeginPassivation(e, 1) {
			if d.s.entities.get(e.ID) != e {
				d.fail("%s is passivated and has left the index", e.ID)
			}
			d.begin(e)
		}
	}
	d.shown = d.shown[max(0, len(d.shown)-4):]
}

func (d *dice) effects(fx Effects) {
	for _, st := range fx.Start {
		d.come(st.Call)
		d.begin(st.Entity)
		d.named[st.Entity] = st.Call
	}
	for _, c := range fx.Forward {
		d.come(c)
		if to, _ := d.s.Successor(c); to.IsZero() && !c.Local {
			d.fail("forward a call of %v, and nobody to forward to", c.Epoch)
		}
	}
	for _, c := range fx.Refuse {
		d.come(c)
	}
	for _, c := range fx.Drop {
		d.come(c)
	}
	if fx.Open && d.s.State() != Forwarding {
		d.fail("Open goes out while %v", d.s.State())
	}
	if fx.Opened && d.s.State() != Open {
		d.fail("opened, and %v", d.s.State())
	}
}

// count checks that every accepted call without an outcome is in exactly one place.
func (d *dice) count() {
	n := d.s.Waiting()
	for e := range d.s.entities.all() {
		n += e.Mailbox()
		if e.Mailbox() > d.s.limits.Mailbox {
			d.fail("%d calls wait for %s, the limit is %d", e.Mailbox(), e.ID, d.s.limits.Mailbox)
		}
	}
	if b := d.s.Bytes(); b > d.s.limits.ShardBytes || int64(b) != d.s.limits.Budget.Used() || int64(b) > d.s.limits.Budget.limit {
		d.fail("calls of %d bytes wait, the limits are %+v", b, d.s.limits)
	}
	joined := 0
	for e, n := range d.told {
		if d.s.entities.get(e.ID) == e {
			joined += max(n-1, 0)
		}
	}
	if n != len(d.waiting)+joined {
		d.fail("%d calls wait, %d were taken in and did not come out, and %d tells joined", n, len(d.waiting), joined)
	}
	for e := range d.turns {
		if !e.Busy() {
			d.fail("%s has a turn and is idle", e.ID)
		}
		want := d.named[e]
		if want == nil || d.s.entities.get(e.ID) != e {
			continue // or its shard was lost
		}
		if c, running := d.s.Find(e.ID, func(c *Call) bool { return c == want }); c != want || !running {
			d.fail("the call of %s is not found", e.ID)
		}
	}
}

// TestRandomCommands: whatever the order of commands, the invariants hold, each call has one
// outcome, and every legal change of state occurs.
func TestRandomCommands(t *testing.T) {
	seen, left, joined, settled := map[State]map[State]bool{}, 0, 0, false
	for seed := range uint64(3000 * seedFactor(t)) {
		d := newDice(seed, seen)
		for range 150 {
			d.step()
			if d.err != nil {
				t.Fatalf("seed %d: %v\nlast commands: %q", seed, d.err, d.log[max(0, len(d.log)-12):])
			}
		}
		left += d.left
		joined += d.joined
		settled = settled || d.settled
	}
	t.Logf("%d turns ended outside the lock", left)
	if !settled {
		t.Error("no shard ever settled")
	}
	if joined == 0 {
		t.Error("no tell joined a turn")
	}
	if left == 0 {
		t.Error("no turn ever ended outside the lock")
	}
	for from, targets := range legal {
		for _, to := range targets {
			if from != to && !seen[from][to] {
				t.Errorf("%v → %v is legal and never happened", from, to)
			}
		}
	}
}

// seedFactor returns SHARDGEN_SEEDS, by which tests with random commands run longer.
func seedFactor(t *testing.T) int {
	s := os.Getenv("SHARDGEN_SEEDS")
	if s == "" {
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("SHARDGEN_SEEDS=%q: want a number from 1", s)
	}
	return n
}
