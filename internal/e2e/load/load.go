// Package load calls the entities of the workload at a steady rate, keeps the
// fate of every call, and judges it in the end.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// Options say how much is called.
type Options struct {
	Entities int
	Rate     int // calls a second, all senders together
}

// opsPerRound is how many calls a sender makes to an entity in one round: one
// that is answered; then two that are not and one that is, at once, so that an
// order can break.
const opsPerRound = 4

// A Load is calls from several senders to all entities. Each pair of sender and
// entity is a goroutine of its own, so that an entity that does not answer holds
// up only the calls to itself.
type Load struct {
	options Options
	senders []string
	pairs   []*pair
	pauses  []*pauses // by entity
	made    atomic.Int64
	failed  atomic.Int64
	errors  errorSample
	stop    chan struct{}
	wg      sync.WaitGroup
}

// An errorSample keeps the first errors of a run, for messages.
type errorSample struct {
	mu    sync.Mutex
	texts []string
}

func (s *errorSample) add(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.texts) < maxExamples {
		s.texts = append(s.texts, fmt.Sprintf("%s failed: %v", time.Now().Format("15:04:05.000"), err))
	}
}

// A pair is one sender's calls to one entity.
type pair struct {
	load   *Load
	sender string
	entity string
	client *workload.TallyClient
	pauses *pauses
	fates  []Fate // of sequence numbers 1, 2, … ; read after Stop
}

// EntityName is the id of an entity.
func EntityName(i int) string { return fmt.Sprintf("tally-%d", i) }

// Start begins to call through each of the callers; each is one sender.
func Start(o Options, callers ...shard.Caller) *Load {
	l := &Load{options: o, stop: make(chan struct{})}
	for i := range o.Entities {
		l.pauses = append(l.pauses, newPauses(EntityName(i)))
	}
	for i, caller := range callers {
		sender := fmt.Sprintf("sender-%d", i)
		client := workload.NewTallyClient(caller)
		l.senders = append(l.senders, sender)
		for j := range o.Entities {
			l.pairs = append(l.pairs, &pair{load: l, sender: sender, entity: EntityName(j), client: client, pauses: l.pauses[j]})
		}
	}
	// A round takes two ticks. The pairs' first ticks are spread over one.
	tick := time.Duration(opsPerRound) * time.Second * time.Duration(len(l.pairs)) / time.Duration(2*o.Rate)
	begin := time.Now()
	for i, p := range l.pairs {
		first := begin.Add(tick * time.Duration(i) / time.Duration(len(l.pairs)))
		l.wg.Go(func() { p.run(first, tick) })
	}
	return l
}

// Stop lets the calls under way end and makes no more. It returns when all have
// their answer or their error.
func (l *Load) Stop() {
	close(l.stop)
	l.wg.Wait()
}

// Made is the number of calls so far.
func (l *Load) Made() int { return int(l.made.Load()) }

// Failed is the number of calls so far that had an error.
func (l *Load) Failed() int { return int(l.failed.Load()) }

// Errors are the first errors of calls.
func (l *Load) Errors() []string {
	l.errors.mu.Lock()
	defer l.errors.mu.Unlock()
	return slices.Clone(l.errors.texts)
}

// Homes counts the entities by the node where each was last seen. Those that
// never answered are under "".
func (l *Load) Homes() map[string]int {
	homes := make(map[string]int)
	for _, p := range l.pauses {
		homes[p.home()]++
	}
	return homes
}

// LivingAt returns the entities last seen at the node.
func (l *Load) LivingAt(node string) map[string]bool {
	living := make(map[string]bool)
	for _, p := range l.pauses {
		if p.home() == node {
			living[p.entity] = true
		}
	}
	return living
}

// run makes calls, each tick its share of a round, until Stop.
func (p *pair) run(next time.Time, tick time.Duration) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for i := 0; ; i++ {
		select {
		case <-p.load.stop:
			return
		case <-timer.C:
		}
		if i%2 == 1 {
			p.tell()
			p.tell()
		}
		p.ask()
		// After a pause there is no catching up: the rate would be another one.
		if next = next.Add(tick); next.Before(time.Now()) {
			next = time.Now()
		}
		timer.Reset(time.Until(next))
	}
}

// ask makes one call that is answered.
func (p *pair) ask() {
	seq, begin := p.next(), time.Now()
	receipt, err := p.client.Ref(p.entity).Apply(context.Background(), p.sender, seq)
	p.pauses.answered(begin, time.Now(), receipt.Node, err)
	p.end(Answered, err)
}

// tell makes one call that is not answered.
func (p *pair) tell() {
	seq := p.next()
	err := p.client.Tell(p.entity).Apply(context.Background(), p.sender, seq)
	p.end(Told, err)
}

func (p *pair) next() uint64 { return uint64(len(p.fates)) + 1 }

// end notes the fate of a call: good if it had no error.
func (p *pair) end(good Fate, err error) {
	fate := good
	if err != nil {
		p.load.failed.Add(1)
		p.load.errors.add(err)
		fate = Uncertain
		if shard.OutcomeOf(err) == shard.NotExecuted {
			fate = Refused
		}
	}
	p.fates = append(p.fates, fate)
	p.load.made.Add(1)
}
