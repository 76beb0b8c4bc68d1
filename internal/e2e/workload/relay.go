package workload

import "context"

// A Relay makes calls from inside of the cluster: one entity calls another,
// wherever both live.
//
//shard:entity
type Relay struct {
	ID      string                    `shard:"id"`
	Node    string                    `shard:"-"` // where it lives
	Tallies func(string) RelayTargets // cannot cross the wire
}

// RelayTargets are the two ways to a Tally.
type RelayTargets struct {
	Ask  TallyAPI
	Tell TallyTell
}

// Burst makes calls with the sequence numbers from first to last, all but the
// last one without waiting for an answer. Node of the receipt is the relay's.
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
