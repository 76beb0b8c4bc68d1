package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Unreadable lists the entities of a type whose states were unreadable at their last call, in order
// of ids, and at most 1,000 of each node. If a member does not answer, the error names it, and the
// answers of the other members are returned.
func (c *Client) Unreadable(ctx context.Context, kind string) ([]Entity, error) {
	at, err := c.hosts(ctx, kind)
	if err != nil {
		return nil, err
	}
	var found []Entity
	for _, node := range at {
		a, askErr := c.ask(ctx, recipient{to: node, what: node.String()}, operator.Request{Command: operator.Inspect, Entity: Entity{Kind: kind}})
		if askErr != nil {
			err = fmt.Errorf("cluster %s: %w", c.cluster, askErr)
		}
		found = append(found, a.Entities...)
	}
	slices.SortFunc(found, func(a, b Entity) int { return cmp.Compare(a.ID, b.ID) })
	return found, err
}

// Inspect returns an entity without its state. The result has the turn under way and the number of
// waiting calls, or the size of the state if no turn runs. The id is in wire form: a string
// unchanged, an integer in decimal, or MarshalText's result.
func (c *Client) Inspect(ctx context.Context, kind, id string) (Entity, error) {
	return c.askEntity(ctx, operator.Request{Command: operator.Inspect, Entity: Entity{Kind: kind, ID: id}})
}

// maxWay is how many nodes are asked, one after another, about an entity or the coordinator that is
// moving. Each of these nodes names the next one.
const maxWay = 4

func (c *Client) askEntity(ctx context.Context, r operator.Request) (Entity, error) {
	at, err := c.hosts(ctx, r.Entity.Kind)
	if err != nil {
		return Entity{}, err
	}
	home := at[0]
	for range maxWay {
		a, err := c.ask(ctx, recipient{to: home, what: home.String()}, r)
		switch {
		case err != nil:
			return Entity{}, fmt.Errorf("cluster %s: %s/%s: %w", c.cluster, r.Entity.Kind, r.Entity.ID, err)
		case len(a.Entities) != 1:
			return Entity{}, fmt.Errorf("cluster %s: %s/%s: %s gave %d answers for one entity (upgrade that node)", c.cluster, r.Entity.Kind, r.Entity.ID, home.Name, len(a.Entities))
		case a.Entities[0].Node == home:
			return a.Entities[0], nil
		}
		home = a.Entities[0].Node
	}
	return Entity{}, fmt.Errorf("cluster %s: %s/%s: the entity's shard is moving (try again)", c.cluster, r.Entity.Kind, r.Entity.ID)
}

func (c *Client) hosts(ctx context.Context, kind string) ([]transport.Address, error) {
	v, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(v.Singletons, func(s operator.Singleton) bool { return s.Kind == kind }) {
		return nil, fmt.Errorf("cluster %[1]s: %[2]s is a singleton, and has no id (shardctl where %[2]s says where it runs; shardctl store show %[2]s singleton prints its state if it is durable)", c.cluster, kind)
	}
	var at []transport.Address
	var kinds []string
	for _, m := range v.Members {
		if slices.Contains(m.Hosts, kind) {
			if m.Reachable && m.Status == membership.Up {
				at = slices.Insert(at, 0, m.Address)
			} else {
				at = append(at, m.Address)
			}
		}
		kinds = append(kinds, m.Hosts...)
	}
	if len(at) == 0 {
		slices.Sort(kinds)
		return nil, fmt.Errorf("cluster %s: no member hosts the type %s (there are: %v)", c.cluster, kind, slices.Compact(kinds))
	}
	return at, nil
}

// Members returns the cluster as one of its members sees it. If no member is up, it fails with
// ErrNoMember and the names of the processes that answered. If no process answers, it fails with
// ErrNoCluster.
func (c *Client) Members(ctx context.Context) (View, error) {
	a, err := c.ask(ctx, anyMember, operator.Request{Command: operator.Members})
	if err == nil {
		return a.View, nil
	}
	if !errors.Is(err, errNobody) {
		return View{}, fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	// A member that is up may not serve yet, or not while its lease has lapsed; the roll call still
	// reaches it.
	views, err := c.RollCall(ctx)
	if err != nil {
		return View{}, err
	}
	for _, v := range views {
		if v.Status == membership.Up || v.Status == membership.Leaving {
			return v, nil
		}
	}
	return View{}, fmt.Errorf("cluster %s: %w: %s", c.cluster, ErrNoMember, describe(views))
}

func describe(views []View) string {
	var waiting, others []string
	for _, v := range views {
		if v.Waits {
			waiting = append(waiting, v.Self.Name)
		} else {
			others = append(others, fmt.Sprintf("%s is %v", v.Self.Name, v.Status))
		}
	}
	var parts []string
	if len(waiting) > 0 {
		parts = append(parts, fmt.Sprintf("waiting to be told to join: %s (shardctl join %s)", strings.Join(waiting, ", "), waiting[0]))
	}
	if len(others) > 0 {
		parts = append(parts, strings.Join(others, ", ")+" (are at least Config.Membership.MinMembers of them up?)")
	}
	return strings.Join(parts, "; ")
}

const rollCallWait = 500 * time.Millisecond

// RollCall asks every process of the cluster for its own view, collects answers for half a second,
// and returns them ordered by name. It fails with ErrNoCluster if no process answers.
func (c *Client) RollCall(ctx context.Context) ([]View, error) {
	id, replies, end := c.open()
	defer end()
	if err := c.send(ctx, everyProcess, id, operator.Request{Command: operator.RollCall}); err != nil {
		return nil, fmt.Errorf("cluster %s: roll call: %w", c.cluster, err)
	}
	enough := time.NewTimer(rollCallWait)
	defer enough.Stop()
	var views []View
	for {
		select {
		case r := <-replies:
			if r.denied != nil {
				return nil, fmt.Errorf("cluster %s: roll call: %w", c.cluster, r.denied)
			}
			if r.answer.Refusal == "" && !r.nobody {
				views = append(views, r.answer.View)
			}
			continue
		case <-enough.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("cluster %s: roll call: %w", c.cluster, context.Cause(ctx))
		}
		break
	}
	if len(views) == 0 {
		return nil, fmt.Errorf("cluster %s: %w (is the name right, does a node run, and is it at this broker?)", c.cluster, ErrNoCluster)
	}
	slices.SortFunc(views, func(a, b View) int { return a.Self.Compare(b.Self) })
	return views, nil
}

func (c *Client) absent(ctx context.Context, node transport.Address) bool {
	views, err := c.RollCall(ctx)
	return errors.Is(err, ErrNoCluster) ||
		err == nil && !slices.ContainsFunc(views, func(v View) bool { return v.Self == node })
}

func (c *Client) find(ctx context.Context, op, node string) (Member, View, error) {
	v, err := c.Members(ctx)
	if err != nil {
		return Member{}, v, err
	}
	m, err := v.Find(node)
	if err != nil {
		return Member{}, v, fmt.Errorf("cluster %s: %s %w", c.cluster, op, err)
	}
	return m, v, nil
}

// NodeShards are the shards of one member, by type.
type NodeShards struct {
	Node transport.Address
	// Types are the types that the member hosts or calls, by name.
	Types []Type
	// Err is the reason why the member did not answer, or nil if it did.
	Err error
}

// NodeCounters are the counters of one member since its start.
type NodeCounters struct {
	Node transport.Address
	// Counters are the counts of shard.Node.Counters, by reason.
	Counters map[string]uint64
	// Err is the reason why the member did not answer, or nil if it did.
	Err error
}

// Shards asks every member for its shards of a type, or of all types if kind is "". The results are
// in order of the members' names. Use Shards for diagnosis only, because each member visits all its
// shards to answer. Shards fails if no member answers with the list of members.
func (c *Client) Shards(ctx context.Context, kind string) ([]NodeShards, error) {
	answers, err := c.each(ctx, operator.Request{Command: operator.Shards, Entity: Entity{Kind: kind}})
	var all []NodeShards
	for _, a := range answers {
		all = append(all, NodeShards{a.node, a.answer.Types, a.err})
	}
	return all, err
}

// Counters asks every member for its counters. The results are in order of the members' names. It
// fails if no member answers with the list of members.
func (c *Client) Counters(ctx context.Context) ([]NodeCounters, error) {
	answers, err := c.each(ctx, operator.Request{Command: operator.Counters})
	var all []NodeCounters
	for _, a := range answers {
		all = append(all, NodeCounters{a.node, a.answer.Counters, a.err})
	}
	return all, err
}

// Where returns the home of an entity, whether or not the entity is active, with the coordinator's
// reason for that home. The id is in wire form: a string unchanged, an integer in decimal, or
// MarshalText's result.
func (c *Client) Where(ctx context.Context, kind, id string) (Place, error) {
	return c.askHost(ctx, operator.Request{Command: operator.Where, Entity: Entity{Kind: kind, ID: id}})
}

// NodeTurns are the most frequent turns of one member, by method, entity and caller.
type NodeTurns struct {
	Node transport.Address
	// Turns counts the turns of the member since it started.
	Turns Turns
	// Err is the reason why the member did not answer, or nil if it did.
	Err error
}

// Turns asks every member for its most frequent turns, by method, entity and caller, and for the
// turns that run. The results are in order of the members' names. It fails if no member answers
// with the list of members.
func (c *Client) Turns(ctx context.Context) ([]NodeTurns, error) {
	answers, err := c.each(ctx, operator.Request{Command: operator.Turns})
	var all []NodeTurns
	for _, a := range answers {
		n := NodeTurns{Node: a.node, Err: a.err}
		if a.answer.Turns != nil {
			n.Turns = *a.answer.Turns
		}
		all = append(all, n)
	}
	return all, err
}

// NodeTrend is one member's load, minute by minute.
type NodeTrend struct {
	Node transport.Address
	// Minutes are the requested minutes, the oldest first. The last minute may not be over.
	Minutes []Minute
	// Err is the reason why the member did not answer for all minutes; nil if it did. Members of
	// older releases refuse [Client.Trends].
	Err error
}

// Trends asks every member for its load in each minute that began after the given time, for at most
// 60 minutes. The results are in order of the members' names. It fails if no member answers with
// the list of members.
func (c *Client) Trends(ctx context.Context, after time.Time) ([]NodeTrend, error) {
	from := uint64(max(0, after.Unix()))
	answers, err := c.each(ctx, operator.Request{Command: operator.Trends, After: from})
	var all []NodeTrend
	for _, a := range answers {
		n := NodeTrend{Node: a.node, Minutes: a.answer.Minutes, Err: a.err}
		for last, got := a.answer.Last, a.answer.Minutes; n.Err == nil && len(got) > 0; {
			from := uint64(got[len(got)-1].At.Unix())
			if from >= last {
				break
			}
			var more operator.Answer
			more, n.Err = c.ask(ctx, recipient{to: a.node, what: a.node.String()}, operator.Request{Command: operator.Trends, After: from})
			got = more.Minutes
			n.Minutes = append(n.Minutes, got...)
		}
		all = append(all, n)
	}
	return all, err
}

// Feeds returns the partitions of the streams that members read with shard.Consume, by name and
// number. A member with a store answers. Feeds fails with ErrRefused if no member has a store, or
// all members are of older releases.
func (c *Client) Feeds(ctx context.Context) ([]Feed, error) {
	v, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("cluster %s: %w", c.cluster, ErrNoMember)
	asked := 0
	for _, m := range v.Members {
		if m.Status != membership.Up || !m.Reachable {
			continue
		}
		a, askErr := c.ask(ctx, recipient{to: m.Address, what: m.Address.String()}, operator.Request{Command: operator.Feeds})
		if askErr == nil {
			return a.Feeds, nil
		}
		err = fmt.Errorf("cluster %s: %w", c.cluster, askErr)
		if asked++; !errors.Is(askErr, ErrRefused) && asked == maxHosts || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// A NodeFact holds the facts of one member.
type NodeFact struct {
	Node transport.Address
	Fact
	// Asked and Answered are when the question was sent and the answer came, by this process's
	// clock.
	Asked, Answered time.Time
	// Err is the reason why the member did not answer, or nil if it did.
	Err error
}

// Facts asks every member for its version, clock, health and limits. The results are in order of
// the members' names. It fails if no member answers with the list of members.
func (c *Client) Facts(ctx context.Context) ([]NodeFact, error) {
	asked := time.Now()
	answers, err := c.each(ctx, operator.Request{Command: operator.Facts})
	var all []NodeFact
	for _, a := range answers {
		n := NodeFact{Node: a.node, Asked: asked, Answered: a.at, Err: a.err}
		if a.answer.Facts != nil {
			n.Fact = *a.answer.Facts
		}
		all = append(all, n)
	}
	return all, err
}

// Passivate passivates an active entity, and returns the entity's node: the stop hook runs there,
// and the next call activates the entity again. Passivate fails if a call of the entity is under
// way.
func (c *Client) Passivate(ctx context.Context, kind, id string) (transport.Address, error) {
	e, err := c.askEntity(ctx, operator.Request{Command: operator.Passivate, Entity: Entity{Kind: kind, ID: id}})
	return e.Node, err
}

// Dump returns the stacks of all goroutines of a member, as the Go runtime prints them. It stops the
// process for some milliseconds. Long dumps are clipped to half of the broker's max_payload.
func (c *Client) Dump(ctx context.Context, node string) (string, error) {
	m, _, err := c.find(ctx, "dump", node)
	if err != nil {
		return "", err
	}
	a, err := c.ask(ctx, recipient{to: m.Address, what: m.Address.String()}, operator.Request{Command: operator.Dump})
	if err != nil {
		return "", fmt.Errorf("cluster %s: dump: %w", c.cluster, err)
	}
	return a.Result, nil
}

// Eavesdropped reports whether a process outside the cluster, such as nats sub 'sh.>', receives the
// messages between the cluster's processes. The broker then does not report when a process ends,
// and members notice the end only later, because the process is silent. To find out, Eavesdropped
// sends a request to a process that does not exist.
func (c *Client) Eavesdropped(ctx context.Context) (bool, error) {
	to := recipient{to: transport.Address{Name: "nobody", Incarnation: identity.New(identity.Member)}, what: "nobody"}
	ctx, cancel := context.WithTimeout(ctx, askAgain+askAgain/2) // for a second request, if the first is lost
	defer cancel()
	_, err := c.ask(ctx, to, operator.Request{Command: operator.Members})
	switch {
	case errors.Is(err, errNobody):
		return false, nil
	case errors.Is(err, context.DeadlineExceeded):
		return true, nil
	}
	return false, fmt.Errorf("cluster %s: %w", c.cluster, err)
}

// Moves returns the moves of shards that are under way, in the order in which they began, and the
// member that runs the coordinator. It fails with ErrNoMember if the member that it asks knows no
// coordinator.
func (c *Client) Moves(ctx context.Context) ([]Move, transport.Address, error) {
	fail := func(err error) ([]Move, transport.Address, error) {
		return nil, transport.Address{}, fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	v, err := c.Members(ctx)
	if err != nil {
		return nil, transport.Address{}, err
	}
	for range maxWay {
		at := v.Coordinator
		if at.IsZero() {
			return fail(fmt.Errorf("%w that knows the coordinator (wait until the coordinator has started at the oldest member; upgrade %s if its release is older)", ErrNoMember, v.Self.Name))
		}
		a, err := c.ask(ctx, recipient{to: at, what: at.String()}, operator.Request{Command: operator.Moves})
		switch {
		case err != nil:
			return fail(err)
		case a.View.Coordinator == at:
			return a.Moves, at, nil
		}
		v = a.View
	}
	return fail(errors.New("the coordinator is moving to another member (try again)"))
}

// maxHosts is how many members are asked about a home. One is not enough: it may just have stopped
// unnoticed.
const maxHosts = 2

// Entities yields the ids of a type's entities, as on the wire and in the order of their bytes, as
// the method List of a generated client does. It asks a host of the type for up to 1,000 ids at a
// time. With l.Limit it ends after that many.
func (c *Client) Entities(ctx context.Context, kind string, l Listing) iter.Seq2[string, error] {
	return c.list(ctx, operator.List, kind, l)
}

func (c *Client) list(ctx context.Context, do operator.Command, kind string, l Listing) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		l := l
		for left := l.Limit; ; {
			l.Limit = left
			a, err := c.answerOfHost(ctx, operator.Request{Command: do, Entity: Entity{Kind: kind}, List: l})
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range a.IDs {
				if !yield(id, nil) {
					return
				}
				l.After = id
			}
			if left > 0 {
				if left -= len(a.IDs); left <= 0 {
					return
				}
			}
			if !a.More || len(a.IDs) == 0 {
				return
			}
		}
	}
}

// Reminded is an entity that has reminders.
type Reminded struct {
	ID  string    // as on the wire
	Due time.Time // when its earliest reminder is due
}

// Reminded yields the entities of a type that have reminders, ordered by the earliest due time of
// each entity and then by id. Reminders that were given up do not count. If limit is above 0,
// Reminded ends after that many entities. It asks in portions like [Client.Entities].
func (c *Client) Reminded(ctx context.Context, kind string, limit int) iter.Seq2[Reminded, error] {
	return func(yield func(Reminded, error) bool) {
		for key, err := range c.list(ctx, operator.Reminders, kind, Listing{Limit: limit}) {
			at, id, ok := wire.ParseDueKey(key)
			if err == nil && !ok {
				err = errors.New("a member answered with entities without due times (it is older and cannot list reminders)")
			}
			if !yield(Reminded{id, time.UnixMilli(at).UTC()}, err) || err != nil {
				return
			}
		}
	}
}

// PauseReminders keeps the reminders of a durable type from running until [Client.ResumeReminders].
// The store keeps the pause, so it outlives all members. Homes obey within 5 s; turns under way run
// to their end.
func (c *Client) PauseReminders(ctx context.Context, kind string) error {
	_, err := c.answerOfHost(ctx, operator.Request{Command: operator.PauseReminders, Entity: Entity{Kind: kind}})
	return err
}

// ResumeReminders ends a pause of reminders. Reminders that became due during the pause run within
// 5 s.
func (c *Client) ResumeReminders(ctx context.Context, kind string) error {
	_, err := c.answerOfHost(ctx, operator.Request{Command: operator.ResumeReminders, Entity: Entity{Kind: kind}})
	return err
}

// RemindersPaused says since when and by whom the reminders of a type are paused, or that the store
// does not answer; "" means not paused.
func (c *Client) RemindersPaused(ctx context.Context, kind string) (string, error) {
	a, err := c.answerOfHost(ctx, operator.Request{Command: operator.Reminders, Entity: Entity{Kind: kind}, List: Listing{Limit: 1}})
	return a.Result, err
}

// Reminders returns the reminders of an entity of a durable type.
func (c *Client) Reminders(ctx context.Context, kind, id string) ([]Reminder, error) {
	return c.reminders(ctx, operator.Reminders, kind, id, "")
}

// CancelReminder cancels the entity's reminder of the given name, and returns the entity's other
// reminders. It fails if the entity has no reminder of that name.
func (c *Client) CancelReminder(ctx context.Context, kind, id, name string) ([]Reminder, error) {
	return c.reminders(ctx, operator.CancelReminder, kind, id, name)
}

// RetryReminder lets a given-up reminder run again, and returns the entity's reminders. It fails if
// no given-up reminder has that name.
func (c *Client) RetryReminder(ctx context.Context, kind, id, name string) ([]Reminder, error) {
	return c.reminders(ctx, operator.RetryReminder, kind, id, name)
}

func (c *Client) reminders(ctx context.Context, do operator.Command, kind, id, name string) ([]Reminder, error) {
	a, err := c.answerOfHost(ctx, operator.Request{Command: do, Entity: Entity{Kind: kind, ID: id}, Reminder: name})
	return a.Reminders, err
}

func (c *Client) askHost(ctx context.Context, r operator.Request) (Place, error) {
	a, err := c.answerOfHost(ctx, r)
	return a.Where, err
}

func (c *Client) answerOfHost(ctx context.Context, r operator.Request) (operator.Answer, error) {
	at, err := c.hosts(ctx, r.Entity.Kind)
	if err != nil {
		return operator.Answer{}, err
	}
	for i, node := range at {
		a, askErr := c.ask(ctx, recipient{to: node, what: node.String()}, r)
		if askErr == nil {
			return a, nil
		}
		err = fmt.Errorf("cluster %s: %w", c.cluster, askErr)
		if errors.Is(askErr, ErrRefused) || ctx.Err() != nil || i+1 == maxHosts {
			break // other hosts would refuse, too
		}
	}
	return operator.Answer{}, err
}

type answered struct {
	node   transport.Address
	answer operator.Answer
	at     time.Time // arrival time
	err    error
}

// each sends a request to every member that is not down, at the same time.
func (c *Client) each(ctx context.Context, r operator.Request) ([]answered, error) {
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
			got <- answered{m.Address, a, time.Now(), err}
		}()
	}
	var all []answered
	for range asked {
		all = append(all, <-got)
	}
	slices.SortFunc(all, func(a, b answered) int { return a.node.Compare(b.node) })
	return all, nil
}

// Events returns a reader of the cluster's events; see [Events.Next]. Members keep the latest 2,048
// log lines of at least level Info, and 2,048 decisions of the coordinator about single shards.
func (c *Client) Events() *Events {
	return &Events{c, map[transport.Address]uint64{}}
}
