package coordinator

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// An EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of a coordinator's events.
const (
	Waiting          EventKind = iota + 1 // recovery waits for members (Reason)
	Recovered                             // everybody registered; Count shards were known
	Allocated                             // Count shards of a type got a home
	HomeLost                              // Count shards, or one, lost their home Node
	MoveStarted                           // Shard goes from Node to Peer under Epoch
	MoveRestored                          // a move begun by a former coordinator goes on
	MoveCommitted                         // Shard is open at Peer
	MoveCancelling                        // Node gave up; Peer must drop Shard
	MoveResumed                           // Shard stays at Node under a new Epoch
	MovePromoted                          // Node is gone, or has passed Shard on; Peer is its home under a new Epoch
	ClaimLost                             // Node claimed a shard whose home is Peer under a higher Epoch
	RebalanceRefused                      // shards should move and may not (Reason)
	StrategyRefused                       // the strategy asked for an impossible home or move
	TypeRefused                           // Node registered a type unlike the cluster's
	TypeTuned                             // Node registered a type with other settings, which count now
	Pinned                                // the pins of Count shards of a type were set or withdrawn
	Refused                               // a message of Node was refused
	Superseded                            // a higher term exists; this coordinator has stopped
	RebalancePaused                       // an operator paused rebalancing (Reason)
	RebalanceResumed                      // an operator ended the pause (Reason)
	RebalanceAsked                        // an operator asked to rebalance now (Reason)
	PoolSized                             // a pool has another number of instances (Reason)
)

var eventNames = [...]string{
	Waiting: "waiting", Recovered: "recovered", Allocated: "allocated", HomeLost: "home lost",
	MoveStarted: "move started", MoveRestored: "move restored", MoveCommitted: "move committed",
	MoveCancelling: "move cancelling", MoveResumed: "move resumed", MovePromoted: "move promoted",
	ClaimLost: "claim lost", RebalanceRefused: "rebalancing refused", StrategyRefused: "strategy refused",
	TypeRefused: "type refused", TypeTuned: "type tuned", Pinned: "pinned", Refused: "refused", Superseded: "superseded",
	RebalancePaused: "rebalancing paused", RebalanceResumed: "rebalancing resumed", RebalanceAsked: "rebalancing asked for",
	PoolSized: "pool sized",
}

// String returns the name of the kind.
func (k EventKind) String() string {
	if int(k) < len(eventNames) && eventNames[k] != "" {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// An Event is for the driver to log, count or show. The field What determines which other fields
// are set.
type Event struct {
	What   EventKind
	Shard  placement.ShardID // if Shard.Shard is 0, only a type
	Node   transport.Address
	Peer   transport.Address
	Epoch  placement.Epoch
	Count  int
	Reason string
}

// String returns the event as one line of text.
func (e Event) String() string {
	text := e.What.String()
	if subject := e.Subject(); subject != "" {
		text += " " + subject
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Subject returns the text of String without the event's kind and reason.
func (e Event) Subject() string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if e.Shard.Shard != 0 {
		add("%v", e.Shard)
	} else if e.Shard.Kind != "" {
		add("%s", e.Shard.Kind)
	}
	switch {
	case !e.Peer.IsZero():
		add("%s→%s", e.Node.Name, e.Peer.Name)
	case !e.Node.IsZero():
		add("%s", e.Node.Name)
	}
	if e.Epoch != 0 {
		add("at %v", e.Epoch)
	}
	if e.Count != 0 || e.What == Recovered || e.What == Allocated {
		add("(%d shards)", e.Count)
	}
	return strings.Join(words, " ")
}

func chosenBy(k *entityType, s *shard, to transport.Address) string {
	by := k.place.String()
	if k.isPool() {
		by = circle{}.String()
	}
	if k.pins.at(s.id.Shard) == to.Name {
		by = "a pin (PinShards)"
	}
	if s.why == "" {
		return "it was given its first home there by " + by
	}
	return s.why + " and given a new home by " + by
}

func (c *Coordinator) explain(id placement.ShardID) (text string, since time.Time) {
	k, s := c.types[id.Kind], c.shard(id)
	switch {
	case !c.recovered:
		return "the coordinator waits until " + c.waiting + " registered or are down", since
	case k == nil:
		return fmt.Sprintf("no member hosts %s", id.Kind), since
	case s == nil:
		return fmt.Sprintf("%s has %d shards, but no shard %d", id.Kind, k.info.Shards, id.Shard), since
	}
	var b strings.Builder
	switch {
	case !s.home.IsZero():
		since = s.since
		fmt.Fprintf(&b, "%v lives at %s under epoch %v: %s", id, s.home.Name, s.epoch, s.why)
	case !k.wanted:
		fmt.Fprintf(&b, "%v has no home: nobody called the type yet", id)
	case !k.keeps(s):
		fmt.Fprintf(&b, "%v has no home: the pool has fewer instances", id)
	default:
		fmt.Fprintf(&b, "%v has no home: %s", id, c.whyNot(k))
	}
	if m := s.move; m != nil {
		to := "moves to " + m.to.Name
		if m.cause == retiring {
			to = "ends there"
		}
		fmt.Fprintf(&b, "; it %s, %s (%s)", to, c.causeOf(m), m.progress())
	}
	if name := k.pins.at(id.Shard); name != "" && name != s.home.Name {
		fmt.Fprintf(&b, "; it is pinned to %s", name)
		if s.move == nil && !c.view.Converged {
			b.WriteString(", and the view has not converged" + c.unreachable())
		}
	}
	b.WriteString(c.stays(k, s))
	if k.isPool() {
		fmt.Fprintf(&b, "; the pool has %s", c.sizeOf(k))
	}
	if c.pause.On {
		fmt.Fprintf(&b, "; %v", c.pause)
	}
	return b.String(), since
}

func (m *move) progress() string {
	if m.state == 0 {
		return m.phase.String()
	}
	return fmt.Sprintf("%v, %v at the old home", m.phase, m.state)
}

// A Moving is a move that is under way, as operators see it.
type Moving struct {
	Shard    placement.ShardID
	From, To transport.Address
	Epoch    placement.Epoch // the epoch of the new home
	Why      string
	Phase    string    // the phase of the move
	Began    time.Time // when it began, or was restored here
}

// Moves returns the moves under way, in the order in which they began.
func (c *Coordinator) Moves() []Moving {
	var all []Moving
	for _, m := range c.moves {
		all = append(all, Moving{m.shard.id, m.from, m.to, m.epoch, c.causeOf(m), m.progress(), m.began})
	}
	return all
}
