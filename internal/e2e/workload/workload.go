// Package workload has the entities that faults are measured with.
package workload

import "context"

//go:generate go tool shardgen

// A Tally records every call that reached it, so that lost, doubled and
// reordered calls are told apart.
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

// Report returns the entity's record.
func (t *Tally) Report(context.Context) (seen map[string][]uint64, err error) { return t.Seen, nil }
