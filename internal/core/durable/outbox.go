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
}

// Published is the [Target.Log] of messages that entities publish to streams. It is not the name of
// a type, and the target's only shard is 0. The Entity of such a tell is the publishing entity, so
// the messages of one entity are published one after the other.
const Published = "!publish"

// fresh is how long after a tell's commit the home of the commit may assume that no other home has
// sent the tell. If the home was paused for longer, another home may have claimed the shard and
// sent the tell.
const fresh = 5 * time.Second

// maxFirst bounds a tenure's first tell number, so that encoded numbers are at most as long as
// unnumbered assumes.
const maxFirst = 1 << 61

// waiting is a tell, in the log or on its way there, that its receiver has not answered.
type waiting struct {
	row     *row
	body    []byte
	at      time.Time // of its commit, by the committing home's clock
	here    time.Time // when this home got it
	ticket  Ticket
	arrived bool // the receiver has it; the log does not say so yet
	dying   bool // it goes to the dead letters; the log does not say so yet
	tries   int
	again   time.Time // when to send it again
}

type pair struct {
	next  uint64 // the number of the next tell
	low   uint64 // no tell with a lower number waits for the receiver; 0 means unknown
	tells map[uint64]*waiting
	rows  map[string]*row // by the receiving entity
}

// row has the waiting tells to one entity, in order. Only the first tell of the row is sent. The
// next tell follows when the receiver has committed the first one, or when the first one was given
// up.
type row struct {
	target  Target
	entity  string
	numbers []uint64
	queued  bool // in outbox.look
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
	look    []*row              // rows whose first tell may be due
	arrived map[Target][]uint64 // to be acknowledged by the next append
	since   time.Time           // when the first of arrived came
}

func (o *outbox) pair(t Target) *pair {
	p := o.pairs[t]
	if p == nil {
		p = &pair{next: 1, tells: map[uint64]*waiting{}, rows: map[string]*row{}}
		o.pairs[t] = p
	}
	return p
}

// unnumbered encodes tells to compute their size, with numbers of the greatest encoded length.
//
//go:noinline
func unnumbered(tells []Tell) []*wire.DurableTell {
	all := make([]*wire.DurableTell, len(tells))
	for i, t := range tells {
		all[i] = &wire.DurableTell{Log: t.Target.Log, Shard: t.Target.Shard, Number: 1 << 62, Entity: []byte(t.Entity), Body: t.Body}
	}
	return all
}

// number assigns numbers to tells. No number is below first, which grows from tenure to tenure: see
// [Config.FirstTell]. Otherwise numbers would be used again after a restore of the store, and
// receivers would drop the new tells as duplicates.
//
//go:noinline
func (o *outbox) number(tells []*wire.DurableTell, first uint64) {
	for _, t := range tells {
		p := o.pair(Target{t.Log, t.Shard})
		p.next = max(p.next, min(first, maxFirst))
		t.Number = p.next
		p.next++
	}
}

func (o *outbox) put(c *wire.DurableCommit, now time.Time, ticket Ticket) {
	for _, t := range c.GetTells() {
		o.wait(Target{t.GetLog(), t.GetShard()}, string(t.GetEntity()), t.GetNumber(), &waiting{
			body: t.GetBody(), at: time.UnixMilli(c.GetAt()), here: now, ticket: ticket,
		})
	}
}

func (o *outbox) wait(t Target, entity string, number uint64, w *waiting) {
	p := o.pair(t)
	o.drop(p, number)
	r := p.rows[entity]
	if r == nil {
		r = &row{target: t, entity: entity}
		p.rows[entity] = r
	}
	if n := len(r.numbers); n == 0 || r.numbers[n-1] < number {
		r.numbers = append(r.numbers, number)
	} else if i, there := slices.BinarySearch(r.numbers, number); !there {
		r.numbers = slices.Insert(r.numbers, i, number)
	}
	w.row = r
	p.tells[number] = w
	p.next = max(p.next, number+1)
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
	delete(p.tells, number)
	o.queue(w.row) // its next tell may be due
}

// first removes the arrived tells at the beginning of the row, and returns the tell that is now
// first, w, with its number. w is nil if none remains.
func (p *pair) first(r *row) (number uint64, w *waiting) {
	for len(r.numbers) > 0 {
		number = r.numbers[0]
		if w = p.tells[number]; w != nil && !w.arrived {
			return number, w
		}
		r.numbers = r.numbers[1:]
	}
	if p.rows[r.entity] == r {
		delete(p.rows, r.entity)
	}
	return 0, nil
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
			o.arrived, o.since = map[Target][]uint64{}, now
		}
		o.arrived[t] = append(o.arrived[t], number)
		o.queue(w.row)
	}
}

func (o *outbox) acknowledgements() *wire.DurableEntry {
	if len(o.arrived) == 0 {
		return nil
	}
	told := numbers(o.arrived)
	o.arrived = nil
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
	gone := map[Target][]uint64{}
	o.each(func(t Target, n uint64, w *waiting) {
		if w.older(now, d) && !w.arrived && !w.dying && w.ticket <= acked {
			w.dying = true
			gone[t] = append(gone[t], n)
		}
	})
	if len(gone) == 0 {
		return nil
	}
	return &wire.DurableEntry{Kind: &wire.DurableEntry_Dead{Dead: numbers(gone)}}
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
			if _, w := p.first(p.rows[id]); w != nil && !now.Before(w.again) {
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
		p := o.pairs[r.target]
		number, w := p.first(r)
		switch {
		case w == nil, w.dying, now.Before(w.again):
		case w.ticket > acked:
			o.queue(r)
		default:
			if all == nil {
				all = make([]Tell, 0, len(look))
			}
			all = append(all, Tell{Target: r.target, Entity: r.entity, Body: w.body, Number: number, Floor: p.floor(), First: w.first(now)})
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

func (o *outbox) each(f func(t Target, number uint64, w *waiting)) {
	for _, t := range slices.SortedFunc(maps.Keys(o.pairs), Target.compare) {
		p := o.pairs[t]
		for _, n := range slices.Sorted(maps.Keys(p.tells)) {
			f(t, n, p.tells[n])
		}
	}
}

func (o *outbox) recover(part *wire.DurableTable, now time.Time) {
	for _, w := range part.GetOutboxes() {
		p := o.pair(Target{w.GetLog(), w.GetShard()})
		p.next = max(p.next, w.GetNext())
		for _, t := range w.GetWaiting() {
			o.wait(Target{w.GetLog(), w.GetShard()}, string(t.GetEntity()), t.GetNumber(), &waiting{body: t.GetBody(), at: time.UnixMilli(t.GetAt()), here: now})
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
	o.each(func(t Target, n uint64, w *waiting) {
		count, bytes = count+1, bytes+len(w.body)
		if n >= o.pairs[t].next {
			err = fmt.Errorf("invariant 2 of the outbox: tell %d to %v waits, but the next number is %d", n, t, o.pairs[t].next)
		}
		if r := o.pairs[t].rows[w.row.entity]; !w.arrived && (r != w.row || !slices.IsSorted(r.numbers) || !slices.Contains(r.numbers, n)) {
			err = fmt.Errorf("invariant 3 of the outbox: tell %d to %v is missing in the row of entity %q, or the row is out of order", n, t, w.row.entity)
		}
	})
	if err == nil && (count != o.count || bytes != o.bytes) {
		err = fmt.Errorf("invariant 1 of the outbox: count and bytes are %d and %d, but the tells are %d with %d bytes", o.count, o.bytes, count, bytes)
	}
	return err
}

func numbers(of map[Target][]uint64) *wire.DurableTold {
	told := &wire.DurableTold{}
	for _, t := range slices.SortedFunc(maps.Keys(of), Target.compare) {
		told.Tells = append(told.Tells, &wire.DurableNumbers{Log: t.Log, Shard: t.Shard, Numbers: of[t]})
	}
	return told
}
