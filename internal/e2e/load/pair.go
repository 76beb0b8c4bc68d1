package load

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// A round takes two ticks: an ask in the first, and two tells and an ask in the second. Those three
// must run in order.
const (
	callsPerRound = 4
	ticksPerRound = 2
)

type pair struct {
	load   *Load
	sender string
	entity string
	path   path
	pauses *pauses
	fates  []Fate // of sequence numbers 1, 2, … ; read after Stop

	failing bool // a call of the last burst failed
}

// patience bounds how long a sender goes on after Stop to see its entity answer again.
const patience = 15 * time.Second

// retryAfter is the pause before repeating a failed call. It is shorter than a tick, to measure the
// end of a pause exactly.
const retryAfter = 50 * time.Millisecond

// run makes calls until Stop. The first call is due at the time next. first is the number of the
// round's tick, 0 or 1, in which the pair begins.
func (p *pair) run(next time.Time, tick time.Duration, first int) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for i := first; ; {
		select {
		case <-p.load.stop:
			p.untilAnswered()
			return
		case <-timer.C:
		}
		if p.failing || i%ticksPerRound == 0 {
			p.burst(1)
		} else {
			p.burst(callsPerRound - 1)
		}
		if p.failing {
			timer.Reset(retryAfter)
			continue
		}
		// A late sender does not catch up, because that would change the rate. It keeps its offset
		// in the tick. Otherwise all senders would call at the same moment after a pause.
		i++
		if late := time.Since(next); late > 0 {
			next = next.Add(late.Truncate(tick))
		}
		next = next.Add(tick)
		timer.Reset(time.Until(next))
	}
}

func (p *pair) untilAnswered() {
	again := time.NewTicker(retryAfter)
	defer again.Stop()
	for limit := time.Now().Add(patience); p.failing && time.Now().Before(limit); <-again.C {
		p.burst(1)
	}
}

// burst makes a number of calls in a row: all as tells, except the last, which is an ask.
func (p *pair) burst(calls int) {
	first := uint64(len(p.fates)) + 1
	begin := time.Now()
	fates, node, err := p.path.burst(context.Background(), p.sender, first, calls)
	p.pauses.ended(begin, time.Now(), node, err)
	p.failing = err != nil
	p.fates = append(p.fates, fates...)
	p.load.made.Add(int64(calls))
	for _, f := range fates {
		if f == Refused || f == Uncertain {
			p.load.failed.Add(1)
		}
	}
	if err != nil {
		p.load.errors.add(err)
	}
}

// A path carries calls to an entity, directly or through a relay.
type path interface {
	// burst makes calls, numbered from first on: tells, and last an ask. It returns each call's
	// fate, where the entity (or its relay) lives, and an error if any failed.
	burst(ctx context.Context, sender string, first uint64, calls int) (fates []Fate, node string, err error)
}

type straight struct {
	ask  workload.TallyRef
	tell workload.TallyTell
}

func (w straight) burst(ctx context.Context, sender string, first uint64, calls int) (fates []Fate, node string, err error) {
	last := first + uint64(calls) - 1
	for seq := first; seq < last; seq++ {
		told := w.tell.Apply(ctx, sender, seq)
		fates = append(fates, fateOf(Told, told))
		if told != nil {
			err = told
		}
	}
	receipt, asked := w.ask.Apply(ctx, sender, last)
	if asked != nil {
		err = asked
	}
	return append(fates, fateOf(Answered, asked)), receipt.Node, err
}

type relayed struct {
	relay  workload.RelayRef
	entity string
}

func (w relayed) burst(ctx context.Context, sender string, first uint64, calls int) (fates []Fate, node string, err error) {
	receipt, err := w.relay.Burst(ctx, w.entity, sender, first, first+uint64(calls)-1)
	for range calls - 1 {
		fates = append(fates, fateOf(Told, err))
	}
	return append(fates, fateOf(Answered, err)), receipt.Node, err
}

// fateOf returns good if err is nil, Refused if the outcome of err is NotExecuted, and otherwise
// Uncertain.
func fateOf(good Fate, err error) Fate {
	switch {
	case err == nil:
		return good
	case shard.OutcomeOf(err) == shard.NotExecuted:
		return Refused
	}
	return Uncertain
}
