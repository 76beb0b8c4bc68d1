package load

import (
	"context"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// A path is how a sender's calls get to one entity.
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

// relayed has a relay call the entity.
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

// fateOf returns good if err is nil. Of a relay's calls only the relay's own outcome is known: if
// it ran, each of them is Uncertain.
func fateOf(good Fate, err error) Fate {
	switch {
	case err == nil:
		return good
	case shard.OutcomeOf(err) == shard.NotExecuted:
		return Refused
	}
	return Uncertain
}
