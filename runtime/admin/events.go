package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/transport"
)

// An Event is a line of the logs of one or more members. If several members see and log the same
// thing, it is one Event.
type Event struct {
	Line
	Node transport.Address   // the first member with the line
	Also []transport.Address // members with a line of the same text and attributes, at most SameWithin later
}

// SameWithin is the largest difference between the times of equal lines of several members that
// count as one [Event].
const SameWithin = 10 * time.Second

// Events follows the logs of all members. It is not safe for concurrent use.
type Events struct {
	client *Client
	last   map[transport.Address]uint64
}

// Next returns the events since the last call, the oldest first, by the clocks of the members. The
// first call returns all events that members keep. Next asks each member once, and does not wait
// for events to happen. If a member does not answer, the error names it, and the events of the
// other members are returned.
func (e *Events) Next(ctx context.Context) ([]Event, error) {
	v, err := e.client.Members(ctx)
	if err != nil {
		return nil, err
	}
	type lines struct {
		node transport.Address
		all  []Line
		err  error
	}
	got := make(chan lines)
	for _, m := range v.Members {
		go func(after uint64) {
			all, err := e.of(ctx, m.Address, after)
			got <- lines{m.Address, all, err}
		}(e.last[m.Address])
	}
	var events []Event
	for range v.Members {
		l := <-got
		if l.err != nil {
			err = fmt.Errorf("cluster %s: %w", e.client.cluster, l.err)
		}
		for _, line := range l.all {
			events = append(events, Event{Line: line, Node: l.node})
			e.last[l.node] = line.Seq
		}
	}
	return merge(events), err
}

func (e *Events) of(ctx context.Context, node transport.Address, after uint64) (all []Line, err error) {
	for {
		a, err := e.client.ask(ctx, recipient{to: node, what: node.String()}, operator.Request{Command: operator.Events, After: after})
		if err != nil {
			return all, err
		}
		all = append(all, a.Lines...)
		if len(a.Lines) == 0 || a.Lines[len(a.Lines)-1].Seq >= a.Last {
			return all, nil
		}
		after = a.Lines[len(a.Lines)-1].Seq
	}
}

// merge orders events by time, and joins equal ones of several members.
func merge(events []Event) []Event {
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), a.Node.Compare(b.Node), cmp.Compare(a.Seq, b.Seq))
	})
	type same struct{ text, attrs string }
	first := map[same]int{} // the latest event of that text in merged
	var merged []Event
	for _, e := range events {
		key := same{e.Text, e.Attrs}
		if i, ok := first[key]; ok && e.Time.Sub(merged[i].Time) <= SameWithin && merged[i].Node != e.Node && !slices.Contains(merged[i].Also, e.Node) {
			merged[i].Also = append(merged[i].Also, e.Node)
			continue
		}
		first[key] = len(merged)
		merged = append(merged, e)
	}
	return merged
}
