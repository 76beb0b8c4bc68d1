package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/witness"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// A Fate is the outcome of a call, as its caller knows it.
type Fate uint8

const (
	Answered  Fate = iota // it ran
	Told                  // a tell without an error
	Refused               // an error that says it did not run
	Uncertain             // an error that leaves open whether it ran
)

// A Verdict has the outcomes of all calls.
type Verdict struct {
	Calls     int
	Failed    int // of outcome NotExecuted
	Unknown   int // with an error that leaves open whether they ran
	Lost      int // answered or told, and not in the entity's state (or never ran)
	Doubled   int // ran more than once
	Disorder  int // ran after a later call of the same sender to the same entity
	Misstated int // ran although an error said that they did not
	Excused   int // would be lost, but their entity's process was killed
	Examples  []string
}

// maxExamples bounds a Verdict's Examples and the errors that a Load keeps.
const maxExamples = 10

func (v *Verdict) note(count *int, format string, args ...any) {
	*count++
	if len(v.Examples) < maxExamples {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

type call struct {
	entity, sender string
	seq            uint64
}

type history struct {
	fates map[pairKey][]Fate // of sequence numbers 1, 2, …
	ran   []witness.Record   // in order of time
	// remembered is the state of the entities in the end.
	remembered map[pairKey][]uint64
	// died are the entities whose process was killed. Their calls do not count as lost.
	died map[string]bool
}

type pairKey struct{ entity, sender string }

func (h history) judge() Verdict {
	var v Verdict
	times := h.judgeRuns(&v)
	pairs := make([]pairKey, 0, len(h.fates))
	for key := range h.fates {
		pairs = append(pairs, key)
	}
	slices.SortFunc(pairs, func(a, b pairKey) int {
		return slices.Compare([]string{a.entity, a.sender}, []string{b.entity, b.sender})
	})
	for _, key := range pairs {
		h.judgePair(&v, key, times)
	}
	return v
}

// judgeRuns finds repeated and reordered calls, and counts how often each ran.
func (h history) judgeRuns(v *Verdict) map[call]int {
	times := make(map[call]int, len(h.ran))
	last := make(map[pairKey]uint64)
	for _, r := range h.ran {
		c, key := call{r.Entity, r.Sender, r.Seq}, pairKey{r.Entity, r.Sender}
		times[c]++
		switch {
		case times[c] > 1:
			v.note(&v.Doubled, "doubled: call %d of %s to %s ran %d times", r.Seq, r.Sender, r.Entity, times[c])
		case r.Seq < last[key]:
			v.note(&v.Disorder, "out of order: call %d of %s to %s ran after call %d", r.Seq, r.Sender, r.Entity, last[key])
		}
		last[key] = max(last[key], r.Seq)
	}
	return times
}

func (h history) judgePair(v *Verdict, key pairKey, times map[call]int) {
	remembers := make(map[uint64]bool)
	for _, seq := range h.remembered[key] {
		remembers[seq] = true
	}
	for i, fate := range h.fates[key] {
		seq := uint64(i) + 1
		ran := times[call{key.entity, key.sender, seq}] > 0
		v.Calls++
		switch {
		case fate == Refused:
			v.Failed++
			if ran {
				v.note(&v.Misstated, "misstated: call %d of %s to %s was refused and ran", seq, key.sender, key.entity)
			}
		case fate == Uncertain:
			v.Unknown++
		case ran && remembers[seq]:
		case h.died[key.entity]:
			v.Excused++
		case !ran:
			v.note(&v.Lost, "lost: call %d of %s to %s never ran", seq, key.sender, key.entity)
		default:
			v.note(&v.Lost, "lost: call %d of %s to %s ran and is not remembered", seq, key.sender, key.entity)
		}
	}
}

// Slow is the pause above which an entity counts as disturbed.
const Slow = 250 * time.Millisecond

// Timing says how entities answered since a given time.
type Timing struct {
	Longest time.Duration // the longest pause of an entity
	// Recovery is the time after which no call failed or took longer than Slow. 0 means that no
	// call did.
	Recovery  time.Duration
	Disturbed int // entities of which a call failed or took longer than Slow
	Silent    int // entities that do not answer yet
	P50, P99  time.Duration
}

func Everyone(string) bool { return true }

const askers = 16

func remembered(ctx context.Context, c shard.Caller, entities int, failed *errorSample) map[pairKey][]uint64 {
	client := workload.NewTallyClient(c)
	all := make(map[pairKey][]uint64)
	var mu sync.Mutex
	var next atomic.Int64
	var wg sync.WaitGroup
	for range askers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < entities; i = int(next.Add(1)) - 1 {
				seen, err := client.Ref(EntityID(i)).Report(ctx)
				if err != nil {
					failed.add(fmt.Errorf("report: %w", err))
					continue
				}
				mu.Lock()
				for sender, seqs := range seen {
					all[pairKey{EntityID(i), sender}] = seqs
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

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
