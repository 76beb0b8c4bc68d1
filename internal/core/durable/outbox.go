package durable

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Target is a shard that receives tells.
type Target struct {
	Log   string // the type of the shard
	Shard uint32
}

func (t Target) compare(o Target) int {
	if t.Log != o.Log {
		return order(t.Log, o.Log)
	}
	return order(t.Shard, o.Shard)
}

// A Tell is a one-way call that waits in the log of the sending shard until the receiving shard has
// committed the call.
type Tell struct {
	Target Target
	Entity string // the receiving entity; tells for one entity are sent one after the other
	Body   []byte // names the method and its arguments
	// Number and Floor are those of the command at the receiver. The command's Source is the
	// sending shard's log.
	Number, Floor uint64
	// First is the earliest time at which an earlier copy of the tell may have been sent. It is
	// zero if no home has sent the tell yet, and the time since its commit is at most the constant
	// fresh.
	First time.Time
	// Sending is for the driver's use. All copies of one tell have the same pointer.
	Sending *bool
}

// Published is the [Target.Log] of messages that entities publish to streams. It is not the name of
// a type, and the target's only shard is 0. The Entity of such a tell is the publishing entity, so
// the messages of one entity are published one after the other.
const Published = "!publish"

// fresh is how long after a tell's commit the home of the commit may assume that no other home has
// sent the tell. If the home was paused for longer, another home may have claimed the shard and
// sent the tell.
const fresh = 5 * time.Second

// maxFirst bounds a tenure's first tell number, so that numbers do not overflow.
const maxFirst = 1 << 61

// waiting is a tell, in the log or on its way there, that its receiver has not answered.
type waiting struct {
	row     *row
	number  uint64
	body    []byte
	at      time.Time // of its commit, by the committing home's clock
	here    time.Time // when this home got it
	ticket  Ticket
	arrived bool // the receiver has it; the log does not say so yet
	dying   bool // it goes to the dead letters; the log does not say so yet
	gone    bool // it waits no longer
	sending bool // see Tell.Sending
	tries   int
	again   time.Time // when to send it again
}

type pair struct {
	target  Target
	next    uint64 // the number of the next tell
	low     uint64 // no tell with a lower number waits for the receiver; 0 means unknown
	tells   map[uint64]*waiting
	rows    map[string]*row // by the receiving entity
	arrived []uint64        // to be acknowledged by the next append
}

// row has the waiting tells to one entity, in order. Only the first tell of the row is sent. The
// next tell follows when the receiver has committed the first one, or when the first one was given
// up.
type row struct {
	pair   *pair
	entity string
	tells  []*waiting // ascending by number, and perhaps some that are gone
	queued bool       // in outbox.look
}

// outbox has a shard's outgoing tells.
//
// Invariants:
//  1. count and bytes are the sums over all pairs.
//  2. Numbers of waiting tells are below next.
//  3. A waiting tell is in the row of its entity, in the order of its numbers.
type outbox struct {
	pairs   map[Target]*pair
	count   int
	bytes   int
	look    []*row    // rows whose first tell may be due
	arrived []*pair   // those whose arrived is not empty
	since   time.Time // when the first of them became so
}

func (o *outbox) pair(t Target) *pair {
	p := o.pairs[t]
	if p == nil {
		p = &pair{target: t, next: 1, tells: map[uint64]*waiting{}, rows: map[string]*row{}}
		o.pairs[t] = p
	}
	return p
}

// number assigns numbers to tells, and returns them as a commit has them. No number is below first,
// which grows from tenure to tenure: see [Config.FirstTell]. Otherwise numbers would be used again
// after a restore of the store, and receivers would drop the new tells as duplicates. If the commit
// fails, its numbers are not used.
//
//go:noinline
func (o *outbox) number(tells []Tell, first uint64) []*wire.DurableTell {
	all, messages := make([]*wire.DurableTell, len(tells)), make([]wire.DurableTell, len(tells))
	for i := range tells {
		t := &tells[i]
		p := o.pair(t.Target)
		p.next = max(p.next, min(first, maxFirst))
		m := &messages[i]
		m.Log, m.Shard, m.Number, m.Entity, m.Body = t.Target.Log, t.Target.Shard, p.next, wire.BytesOf(t.Entity), t.Body
		all[i] = m
		p.next++
	}
	return all
}

func (o *outbox) put(c *wire.DurableCommit, now time.Time, ticket Ticket) {
	for _, t := range c.GetTells() {
		o.wait(Target{t.GetLog(), t.GetShard()}, wire.StringOf(t.GetEntity()), &waiting{
			number: t.GetNumber(), body: t.GetBody(), at: time.UnixMilli(c.GetAt()), here: now, ticket: ticket,
		})
	}
}

func (o *outbox) wait(t Target, entity string, w *waiting) {
	p := o.pair(t)
	o.drop(p, w.number)
	r := p.rows[entity]
	if r == nil {
		r = &row{pair: p, entity: entity}
		p.rows[entity] = r
	}
	i := len(r.tells)
	for i > 0 && r.tells[i-1].number > w.number { // rarely, because numbers ascend
		i--
	}
	r.tells = slices.Insert(r.tells, i, w)
	w.row = r
	p.tells[w.number] = w
	p.next = max(p.next, w.number+1)
	o.count++
	o.bytes += len(w.body)
	o.queue(r)
}

func (o *outbox) queue(r *row) {
	if !r.queued {
		r.queued = true
		o.look = append(o.look, r)
	}
}

func (o *outbox) drop(p *pair, number uint64) {
	w := p.tells[number]
	if w == nil {
		return
	}
	o.count--
	o.bytes -= len(w.body)
	w.gone = true
	delete(p.tells, number)
	o.queue(w.row) // its next tell may be due
}

// first removes the arrived tells at the beginning of the row, and returns the tell that is now
// first. It returns nil if none remains.
func (r *row) first() *waiting {
	for len(r.tells) > 0 {
		if w := r.tells[0]; !w.gone && !w.arrived {
			return w
		}
		r.tells = r.tells[1:]
	}
	if r.pair.rows[r.entity] == r {
		delete(r.pair.rows, r.entity)
	}
	return nil
}

// settle removes the tells of an entry that acknowledges tells or gives them up.
func (o *outbox) settle(e *wire.DurableEntry) {
	for _, told := range []*wire.DurableTold{e.GetAcknowledged(), e.GetDead()} {
		for _, n := range told.GetTells() {
			p := o.pair(Target{n.GetLog(), n.GetShard()})
			for _, number := range n.GetNumbers() {
				o.drop(p, number)
			}
		}
	}
}

// told returns the tells in told, except those that wait no longer.
func (o *outbox) told(told *wire.DurableTold) (all []Tell) {
	for _, n := range told.GetTells() {
		t := Target{n.GetLog(), n.GetShard()}
		for _, number := range n.GetNumbers() {
			if w := o.pair(t).tells[number]; w != nil {
				all = append(all, Tell{Target: t, Entity: w.row.entity, Body: w.body, Number: number})
			}
		}
	}
	return all
}

func (o *outbox) replay(e *wire.DurableEntry, now time.Time) {
	o.put(e.GetCommit(), now, 0)
	o.settle(e)
}

// NextTell returns a number above those of all tells that this tenure has read or numbered.
func (s *Shard) NextTell() uint64 {
	next := s.config.FirstTell
	//arch:order-free the highest of them
	for _, p := range s.outbox.pairs {
		next = max(next, p.next)
	}
	return next
}

func (p *pair) floor() uint64 {
	if p.low == 0 {
		p.low = p.least()
	}
	for steps := 0; p.low < p.next; steps++ {
		if w := p.tells[p.low]; w != nil && !w.arrived {
			break
		}
		if steps > len(p.tells) { // numbers of another tenure follow
			p.low = p.least()
			break
		}
		p.low++
	}
	return p.low
}

func (p *pair) least() uint64 {
	low := p.next
	//arch:order-free the least of them
	for n, w := range p.tells {
		if !w.arrived {
			low = min(low, n)
		}
	}
	return low
}

func (o *outbox) arrive(t Target, number uint64, now time.Time) {
	p := o.pairs[t]
	if p == nil {
		return
	}
	if w := p.tells[number]; w != nil && !w.arrived && !w.dying {
		w.arrived = true
		if len(o.arrived) == 0 {
			o.since = now
		}
		if len(p.arrived) == 0 {
			o.arrived = append(o.arrived, p)
		}
		p.arrived = append(p.arrived, number)
		o.queue(w.row)
	}
}

func (o *outbox) acknowledgements() *wire.DurableEntry {
	if len(o.arrived) == 0 {
		return nil
	}
	slices.SortFunc(o.arrived, func(p, q *pair) int { return p.target.compare(q.target) })
	told := &wire.DurableTold{}
	for _, p := range o.arrived {
		told.Tells = append(told.Tells, p.target.numbers(p.arrived))
		p.arrived = nil
	}
	o.arrived = o.arrived[:0]
	return &wire.DurableEntry{Kind: &wire.DurableEntry_Acknowledged{Acknowledged: told}}
}

// older reports whether the tell is older than d, counted from its commit or from when this home
// got it: the clock that timed the commit may be wrong.
func (w *waiting) older(now time.Time, d time.Duration) bool {
	return now.Sub(w.at) > d || now.Sub(w.here) > d
}

func (o *outbox) dead(now time.Time, d time.Duration, acked Ticket) *wire.DurableEntry {
	if !o.hasOlder(now, d) {
		return nil
	}
	var told *wire.DurableTold
	var last *pair
	o.each(func(w *waiting) {
		if !w.older(now, d) || w.arrived || w.dying || w.ticket > acked {
			return
		}
		w.dying = true
		if told == nil {
			told = &wire.DurableTold{}
		}
		if p := w.row.pair; p != last {
			told.Tells, last = append(told.Tells, p.target.numbers(nil)), p
		}
		of := told.Tells[len(told.Tells)-1]
		of.Numbers = append(of.Numbers, w.number)
	})
	if told == nil {
		return nil
	}
	return &wire.DurableEntry{Kind: &wire.DurableEntry_Dead{Dead: told}}
}

func (o *outbox) hasOlder(now time.Time, d time.Duration) bool {
	//arch:order-free whether there is one
	for _, p := range o.pairs {
		//arch:order-free whether there is one
		for _, w := range p.tells {
			if w.older(now, d) {
				return true
			}
		}
	}
	return false
}

func (o *outbox) lookAgain(now time.Time) {
	if o.count == 0 {
		return
	}
	for _, t := range slices.SortedFunc(maps.Keys(o.pairs), Target.compare) {
		p := o.pairs[t]
		for _, id := range slices.Sorted(maps.Keys(p.rows)) {
			if w := p.rows[id].first(); w != nil && !now.Before(w.again) {
				o.queue(w.row)
			}
		}
	}
}

func (o *outbox) due(now time.Time, pause time.Duration, acked Ticket) (all []Tell) {
	look := o.look
	o.look = nil
	for _, r := range look {
		r.queued = false
		w := r.first()
		switch {
		case w == nil, w.dying, now.Before(w.again):
		case w.ticket > acked:
			o.queue(r)
		default:
			if all == nil {
				all = make([]Tell, 0, len(look))
			}
			all = append(all, Tell{
				Target: r.pair.target, Entity: r.entity, Body: w.body, Number: w.number, Floor: r.pair.floor(), First: w.first(now), Sending: &w.sending,
			})
			w.again = now.Add(pause << min(w.tries, 5))
			w.tries++
		}
	}
	return all
}

// first returns [Tell.First] of a tell sent at now.
func (w *waiting) first(now time.Time) time.Time {
	if w.ticket > 0 && w.tries == 0 && now.Sub(w.at) <= fresh {
		return time.Time{}
	}
	return w.at
}

func (o *outbox) each(f func(w *waiting)) {
	for _, t := range slices.SortedFunc(maps.Keys(o.pairs), Target.compare) {
		p := o.pairs[t]
		for _, n := range slices.Sorted(maps.Keys(p.tells)) {
			f(p.tells[n])
		}
	}
}

func (o *outbox) recover(part *wire.DurableTable, now time.Time) {
	for _, w := range part.GetOutboxes() {
		p := o.pair(Target{w.GetLog(), w.GetShard()})
		p.next = max(p.next, w.GetNext())
		for _, t := range w.GetWaiting() {
			o.wait(p.target, string(t.GetEntity()), &waiting{number: t.GetNumber(), body: t.GetBody(), at: time.UnixMilli(t.GetAt()), here: now})
		}
	}
}

// parts encodes the outbox as of ticket acked, at most one tell in each message.
func (o *outbox) parts(acked Ticket) (all []*wire.DurableOutbox) {
	for _, t := range slices.SortedFunc(maps.Keys(o.pairs), Target.compare) {
		p := o.pairs[t]
		next := p.next
		var waits []*wire.DurableOutbox
		for _, n := range slices.Sorted(maps.Keys(p.tells)) {
			w := p.tells[n]
			if w.ticket > acked { // neither this tell nor a later one is acknowledged
				next = min(next, n)
				continue
			}
			if !w.arrived {
				waits = append(waits, &wire.DurableOutbox{Log: t.Log, Shard: t.Shard, Waiting: []*wire.DurableWaiting{
					{Number: n, At: w.at.UnixMilli(), Entity: []byte(w.row.entity), Body: w.body},
				}})
			}
		}
		all = append(all, &wire.DurableOutbox{Log: t.Log, Shard: t.Shard, Next: next})
		all = append(all, waits...)
	}
	return all
}

func (o *outbox) check() error {
	count, bytes := 0, 0
	var err error
	o.each(func(w *waiting) {
		count, bytes = count+1, bytes+len(w.body)
		p := w.row.pair
		if w.number >= p.next {
			err = fmt.Errorf("invariant 2 of the outbox: tell %d to %v waits, but the next number is %d", w.number, p.target, p.next)
		}
		ascend := slices.IsSortedFunc(w.row.tells, func(a, b *waiting) int { return order(a.number, b.number) })
		if !w.arrived && (p.rows[w.row.entity] != w.row || !ascend || !slices.Contains(w.row.tells, w)) {
			err = fmt.Errorf("invariant 3 of the outbox: tell %d to %v is missing in the row of entity %q, or the row is out of order", w.number, p.target, w.row.entity)
		}
	})
	if err == nil && (count != o.count || bytes != o.bytes) {
		err = fmt.Errorf("invariant 1 of the outbox: count and bytes are %d and %d, but the tells are %d with %d bytes", o.count, o.bytes, count, bytes)
	}
	return err
}

func (t Target) numbers(all []uint64) *wire.DurableNumbers {
	return &wire.DurableNumbers{Log: t.Log, Shard: t.Shard, Numbers: all}
}
