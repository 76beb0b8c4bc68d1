// Package workload has the entities with which faults are measured.
package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// A Tally records all calls to it, so that lost, doubled and reordered calls can be found.
//
//shard:entity shards=1024 tell=all
type Tally struct {
	ID string `shard:"id"`
	// Seen are the sequence numbers of each sender in order of arrival.
	Seen map[string][]uint64 `shard:"state"`

	Node    string                                  `shard:"-"` // where it lives
	Witness func(entity, sender string, seq uint64) // outlives the process
}

// A Receipt is the answer to one Apply.
type Receipt struct {
	Count uint64 // the sender's calls that the entity remembers, this one included
	Node  string // where the call ran
}

// Apply records one call. Each sender numbers its calls to an entity from 1.
func (t *Tally) Apply(_ context.Context, sender string, seq uint64) (Receipt, error) {
	if t.Witness != nil {
		t.Witness(t.ID, sender, seq)
	}
	if t.Seen == nil {
		t.Seen = make(map[string][]uint64)
	}
	t.Seen[sender] = append(t.Seen[sender], seq)
	return Receipt{Count: uint64(len(t.Seen[sender])), Node: t.Node}, nil
}

// Report returns the sequence numbers of each sender's calls in order of arrival.
func (t *Tally) Report(context.Context) (seen map[string][]uint64, err error) { return t.Seen, nil }

// A Clerk takes a given time for each call, so the number of calls that it can serve in a second is
// known.
//
//shard:entity shards=16
type Clerk struct {
	ID string `shard:"id"`
}

// Serve waits the given time.
func (c *Clerk) Serve(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A Leader is a singleton that remembers its callers and records when it lived.
//
//shard:singleton
type Leader struct {
	// Last is the latest sequence number of each sender.
	Last map[string]uint64 `shard:"state"`

	Node  string                `shard:"-"` // where it lives
	Trace func(time.Time) error `shard:"-"` // that it lives at that moment
}

const traceEvery = 2 * time.Millisecond

// OnActivate starts calling Trace.
func (l *Leader) OnActivate(ctx context.Context, _ shard.Activation) error {
	return shard.Go(ctx, func(ctx context.Context) error { return live(ctx, l.Trace) })
}

func live(ctx context.Context, trace func(time.Time) error) error {
	ticker := time.NewTicker(traceEvery)
	defer ticker.Stop()
	for {
		if err := trace(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return trace(time.Now())
		case <-ticker.C:
		}
	}
}

// Beat records one call. Each sender numbers its calls from 1. fresh means that this leader did not
// know the sender. For a known sender, a number that is not the next one is an error.
func (l *Leader) Beat(_ context.Context, sender string, seq uint64) (node string, fresh bool, err error) {
	fresh, err = note(&l.Last, sender, seq)
	return l.Node, fresh, err
}

// note records a call, with the results of [Leader.Beat].
func note(all *map[string]uint64, sender string, seq uint64) (fresh bool, err error) {
	if *all == nil {
		*all = make(map[string]uint64)
	}
	last, known := (*all)[sender]
	if known && seq != last+1 {
		return false, fmt.Errorf("sender %s: call %d follows call %d, so a call was lost or repeated", sender, seq, last)
	}
	(*all)[sender] = seq
	return !known, nil
}

// A Ledger is durable: changes that it has acknowledged survive its process.
//
//shard:entity durable
type Ledger struct {
	ID    string `shard:"id"`
	Total int64  `shard:"state"` // of all added amounts

	Node string `shard:"-"` // where it lives
}

// Add adds n. It returns the sum, and the node where the entity lives.
func (l *Ledger) Add(_ context.Context, n int64) (total int64, node string, err error) {
	l.Total += n
	return l.Total, l.Node, nil
}

// A Poison has two harmful methods: one panics, and the other never returns.
//
//shard:entity shards=16
type Poison struct {
	ID   string `shard:"id"`
	Node string `shard:"-"` // where it lives
}

// Where returns the node where the entity lives.
func (p *Poison) Where(context.Context) (node string, err error) { return p.Node, nil }

// Panic panics.
func (p *Poison) Panic(context.Context) error { panic("poisoned") }

// Loop never returns, not even when its context ends.
func (p *Poison) Loop(context.Context) error {
	Spin()
	return nil
}

// Spin never returns, and occupies one core.
func Spin() {
	var rounds atomic.Uint64 // else there would be nothing to do
	for {
		rounds.Add(1)
	}
}

// A Pulse is remembered: it is activated again without a call. It records each activation.
//
//shard:entity
type Pulse struct {
	ID      string                                  `shard:"id"`
	Node    string                                  `shard:"-"` // where it lives
	Witness func(entity, sender string, seq uint64) // of its activations
}

// PulseBegan is the number that a Pulse records for an activation with the reason [shard.Fresh]. A
// moved Pulse records another.
const PulseBegan = 1 + uint64(shard.Fresh)

// OnActivate records the activation, with 1 + why as its number.
func (p *Pulse) OnActivate(_ context.Context, why shard.Activation) error {
	p.Witness(p.ID, p.Node, 1+uint64(why))
	return nil
}

// Beat returns the node where the entity lives.
func (p *Pulse) Beat(context.Context) (node string, err error) { return p.Node, nil }

// A Relay calls an entity from inside the cluster, wherever both of them live.
//
//shard:entity
type Relay struct {
	ID      string                    `shard:"id"`
	Node    string                    `shard:"-"` // where it lives
	Tallies func(string) RelayTargets // cannot cross the wire
}

// RelayTargets are the two ways to a Tally: asks and tells.
type RelayTargets struct {
	Ask  TallyAPI
	Tell TallyTell
}

// Burst makes calls with the sequence numbers first to last: number last as an ask, the others as
// tells. The receipt's Node is the relay's.
func (r *Relay) Burst(ctx context.Context, entity, sender string, first, last uint64) (Receipt, error) {
	target := r.Tallies(entity)
	for seq := first; seq < last; seq++ {
		if err := target.Tell.Apply(ctx, sender, seq); err != nil {
			return Receipt{}, err
		}
	}
	receipt, err := target.Ask.Apply(ctx, sender, last)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{Count: receipt.Count, Node: r.Node}, nil
}

// A Stock is told each sale by the [Till] with the same id, or by a stream.
//
//shard:entity durable shards=16 tell=all
type Stock struct {
	ID     string `shard:"id"`
	Last   int64  `shard:"state"` // the highest number of a sale
	Again  int64  `shard:"state"` // how many sales came with Last or a lower number
	Missed int64  `shard:"state"` // how many numbers were skipped
}

// Sold records a sale.
func (s *Stock) Sold(_ context.Context, total int64) error {
	if total <= s.Last {
		s.Again++
		return nil
	}
	s.Missed += total - s.Last - 1
	s.Last = total
	return nil
}

// Forward records a sale and publishes its number on a subject that ends with the stock's id.
func (s *Stock) Forward(ctx context.Context, total int64) error {
	return errors.Join(s.Sold(ctx, total), shard.Publish(ctx, ForwardedTo+s.ID, strconv.AppendInt(nil, total, 10)))
}

// ForwardedTo is the prefix of the subjects of [Stock.Forward].
const ForwardedTo = "forwarded."

// Report returns the number of the last sale, and how many sales came again and how many were
// skipped.
//
//shard:read
func (s *Stock) Report(context.Context) (last, again, missed int64, err error) {
	return s.Last, s.Again, s.Missed, nil
}

// A Till is durable like a [Ledger], and all its calls have effects elsewhere: each sale is an
// event for followers, and is told to the [Stock] with the same id.
//
//shard:entity durable
type Till struct {
	ID      string `shard:"id"`
	Total   int64  `shard:"state"` // of all sales
	Journal shard.Journal[Sale]

	Node   string                 `shard:"-"` // where it lives
	Stocks func(string) StockTell `shard:"-"`
}

// A Sale is an event of a till.
type Sale struct {
	Total int64 // of the till, with this sale; numbers the till's sales
}

// Apply sets the total to that of the sale.
func (t *Till) Apply(s Sale) { t.Total = s.Total }

// Add sells n pieces one by one. It returns the sum, and the node where the till lives.
func (t *Till) Add(ctx context.Context, n int64) (total int64, node string, err error) {
	stock := t.Stocks(t.ID)
	for range n {
		t.Journal.Record(t, Sale{Total: t.Total + 1})
		if err := stock.Sold(ctx, t.Total); err != nil {
			return t.Total, t.Node, err
		}
	}
	return t.Total, t.Node, nil
}

// A Treasurer is a durable [Leader]: calls that it has acknowledged survive its process.
//
//shard:singleton durable
type Treasurer struct {
	// Last is the latest sequence number of each sender.
	Last map[string]uint64 `shard:"state"`

	Node  string                `shard:"-"` // where it lives
	Trace func(time.Time) error `shard:"-"` // that it lives at that moment
}

// OnActivate starts calling Trace.
func (t *Treasurer) OnActivate(ctx context.Context, _ shard.Activation) error {
	return shard.Go(ctx, func(ctx context.Context) error { return live(ctx, t.Trace) })
}

// Beat does the same as [Leader.Beat]. A number other than the next one shows that a call was lost
// or applied twice.
func (t *Treasurer) Beat(_ context.Context, sender string, seq uint64) (node string, fresh bool, err error) {
	fresh, err = note(&t.Last, sender, seq)
	return t.Node, fresh, err
}

// A Bell is durable, and is rung by reminders.
//
//shard:entity durable
type Bell struct {
	ID    string `shard:"id"`
	Rings []Ring `shard:"state"`
}

// A Ring is one run of a reminder.
type Ring struct {
	Name string
	Late int64 // in milliseconds, by the clock of the node; below 0: too early
}

// Ring notes the reminder that it runs for.
func (b *Bell) Ring(ctx context.Context) error {
	f, _ := shard.Fired(ctx)
	b.Rings = append(b.Rings, Ring{f.Name, time.Since(f.Due).Milliseconds()})
	return nil
}

// Rung returns all rings.
//
//shard:read
func (b *Bell) Rung(context.Context) (rings []Ring, err error) { return b.Rings, nil }
