package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A NodeShards is what one member says of the shards of types.
type NodeShards struct {
	Node transport.Address
	// Types are those that the member hosts or calls, by name.
	Types []Type
	// Err is why the member did not answer; nil: it did.
	Err error
}

// A NodeCounters is what one member has counted since its start.
type NodeCounters struct {
	Node transport.Address
	// Counters are numbers of events by reason, as shard.Node.Counters has them.
	Counters map[string]uint64
	// Err is why the member did not answer; nil: it did.
	Err error
}

// Shards asks every member for its shards of a type, or of all types if kind is "". Members are
// in order of their names. Each visits all its shards, so this is for diagnosis. It fails if no
// member answers the question for the members.
func (c *Client) Shards(ctx context.Context, kind string) ([]NodeShards, error) {
	answers, err := each(ctx, c, operator.Request{Command: operator.Shards, Entity: Entity{Kind: kind}})
	var all []NodeShards
	for _, a := range answers {
		all = append(all, NodeShards{a.node, a.answer.Types, a.err})
	}
	return all, err
}

// Counters asks every member for its counters. Members are in order of their names. It fails if
// no member answers the question for the members.
func (c *Client) Counters(ctx context.Context) ([]NodeCounters, error) {
	answers, err := each(ctx, c, operator.Request{Command: operator.Counters})
	var all []NodeCounters
	for _, a := range answers {
		all = append(all, NodeCounters{a.node, a.answer.Counters, a.err})
	}
	return all, err
}

// Where returns the home of an entity, whether or not it is active, with the coordinator's reason
// for it. The id is as on the wire: the string itself, an integer in decimal, or its text.
func (c *Client) Where(ctx context.Context, kind, id string) (Place, error) {
	at, err := hosts(ctx, c, kind)
	if err != nil {
		return Place{}, err
	}
	a, err := c.ask(ctx, recipient{to: at[0], what: at[0].String()}, operator.Request{Command: operator.Where, Entity: Entity{Kind: kind, ID: id}})
	if err != nil {
		return Place{}, fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	return a.Place, nil
}

// An answered is the answer of one member, or why there is none.
type answered struct {
	node   transport.Address
	answer operator.Answer
	err    error
}

// each asks every member that is not down, all at the same time.
func each(ctx context.Context, c *Client, r operator.Request) ([]answered, error) {
	v, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	got, asked := make(chan answered), 0
	for _, m := range v.Members {
		if m.Status == membership.Down {
			continue
		}
		asked++
		go func() {
			a, err := c.ask(ctx, recipient{to: m.Address, what: m.Address.String()}, r)
			got <- answered{m.Address, a, err}
		}()
	}
	var all []answered
	for range asked {
		all = append(all, <-got)
	}
	slices.SortFunc(all, func(a, b answered) int { return a.node.Compare(b.node) })
	return all, nil
}
