package load

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// A round of a sender's calls to an entity takes two ticks. The first tick has one ask; the second
// has two tells and an ask, one right after another, whose order must be kept.
const (
	callsPerRound = 4
	ticksPerRound = 2
)

// A pair makes one sender's calls to one entity.
type pair struct {
	load   *Load
	sender string
	entity string
	path   path
	pauses *pauses
	fates  []Fate // of sequence numbers 1, 2, … ; read after Stop

	failing bool // a call of the last burst failed
}

// patience bounds how long a sender whose last call failed goes on after Stop, to find out when its
// entity answers again.
const patience = 15 * time.Second

// retryAfter is the time after which a sender repeats a failed call. It is shorter than a tick,
// because the end of a pause would otherwise be measured at the sender's next tick.
const retryAfter = 50 * time.Millisecond

// run makes the calls of one tick after another until Stop, beginning at next with tick first of a
// round.
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
		// After a pause there is no catching up: the rate would be another one. And
		// each pair keeps its place in the tick, or all would call at once from then on.
		i++
		if late := time.Since(next); late > 0 {
			next = next.Add(late.Truncate(tick))
		}
		next = next.Add(tick)
		timer.Reset(time.Until(next))
	}
}

// untilAnswered repeats calls while the last one has failed, at most for patience.
func (p *pair) untilAnswered() {
	again := time.NewTicker(retryAfter)
	defer again.Stop()
	for limit := time.Now().Add(patience); p.failing && time.Now().Before(limit); <-again.C {
		p.burst(1)
	}
}

// burst makes that many calls one right after another: tells, and an ask as the last.
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

// A path is a way for a sender's calls to an entity: directly, or through a relay.
type path interface {
	// burst makes tells and last an ask, numbered from first.
	// It returns the fate of each, where the entity (or its relay) lives, and an
	// error if any call failed.
	burst(ctx context.Context, sender string, first uint64, calls int) (fates []Fate, node string, err error)
}

// straight calls the entity from this process.
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

// relayed calls the entity through a relay.
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

// fateOf returns good if err is nil, Refused if err says that the call did not run, and otherwise
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
