package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// maxAnswered bounds the remembered requests: a repeated request gets the same answer.
const maxAnswered = 128

type request struct {
	from   transport.Address
	id     uint64
	kind   string          // type whose pins change; "" for a Balance
	now    bool            // it is a Balance with WantNow
	seq    placement.Epoch // of the change that it made
	answer Message         // nil while it is under way
}

// CheckPins returns an error if pins, ordered by shard, are not valid in a message.
func CheckPins(kind string, pins []Pin) error {
	if kind == "" || len(kind) > maxTypeBytes {
		return fmt.Errorf("check pins: type name of %d bytes: want 1 to %d", len(kind), maxTypeBytes)
	}
	for _, p := range pins {
		if p.Shard == 0 || p.Shard >= 2*placement.MaxShards {
			return fmt.Errorf("check pins: shard number %d: want 1 to %d", p.Shard, 2*placement.MaxShards-1)
		}
		if p.Node == "" {
			continue
		}
		if err := transport.CheckName("node", p.Node); err != nil {
			return fmt.Errorf("check pins: shard %d: %w", p.Shard, err)
		}
	}
	return nil
}

// Pause returns the latest pause of rebalancing known to the coordinator.
func (c *Coordinator) Pause() Pause { return c.pause }

// repeated reports whether the coordinator must ignore a request because the same request came
// before. If that request has been answered, repeated sends the answer again. Before recovery,
// repeated returns true for all requests: members send them again later.
func (c *Coordinator) repeated(from transport.Address, id uint64) bool {
	for _, r := range c.requests {
		if r.from == from && r.id == id {
			if r.answer != nil {
				c.send(from, r.answer)
			}
			return true
		}
	}
	return !c.recovered
}

func (c *Coordinator) accept(r *request) {
	c.requests = append(c.requests, r)
	c.requests = c.requests[max(0, len(c.requests)-maxAnswered):]
	c.spread()
}

// onSetPins changes pins at once, and answers when every registered member keeps them.
func (c *Coordinator) onSetPins(from transport.Address, p SetPins) {
	if c.repeated(from, p.ID) {
		return
	}
	k := c.types[p.Type]
	if k == nil {
		c.send(from, PinsSet{c.config.Term, p.ID, fmt.Sprintf("no member hosts %s (start one that does)", p.Type)})
		return
	}
	if p.Count != nil && !k.isPool() {
		c.send(from, PinsSet{c.config.Term, p.ID, p.Type + " is not a pool"})
		return
	}
	if len(p.Pins) > 0 && k.isPool() {
		c.send(from, PinsSet{c.config.Term, p.ID, p.Type + " is a pool, and its instances are placed round the members"})
		return
	}
	for _, pin := range p.Pins {
		if c.shard(placement.ShardID{Kind: p.Type, Shard: pin.Shard}) == nil {
			c.send(from, PinsSet{c.config.Term, p.ID, fmt.Sprintf("%s has no shard %d, only %d to %d", p.Type, pin.Shard, k.info.Shards, 2*k.info.Shards-1)})
			return
		}
	}
	if p.Once {
		c.moveOnce(k, from, p)
		return
	}
	k.pins.change(p.Type, p.Pins)
	words := describePins(p.Pins)
	if p.Count != nil {
		k.pins.Count = *p.Count
		words = strings.TrimSpace(words + fmt.Sprintf(" %d instances", *p.Count))
	}
	k.pins.Seq = k.pins.Seq.Next(c.config.Term.Number)
	c.plan = true
	c.event(Event{What: Pinned, Shard: placement.ShardID{Kind: p.Type}, Count: len(p.Pins), Reason: words + ", as " + from.Name + " asks"})
	c.accept(&request{from: from, id: p.ID, kind: p.Type, seq: k.pins.Seq})
}

// moveOnce begins the moves of a request, unless one of them cannot be made.
func (c *Coordinator) moveOnce(k *entityType, from transport.Address, p SetPins) {
	type order struct {
		shard *shard
		to    transport.Address
	}
	var orders []order
	for _, pin := range p.Pins {
		s := c.shard(placement.ShardID{Kind: p.Type, Shard: pin.Shard})
		to, why := c.mayMoveTo(k, s, pin.Node)
		if why != "" {
			c.send(from, PinsSet{c.config.Term, p.ID, fmt.Sprintf("%v %s", s.id, why)})
			return
		}
		orders = append(orders, order{s, to})
	}
	for _, o := range orders {
		if o.shard.home != o.to {
			c.beginBy(o.shard, o.to, balancing, "as "+from.Name+" asks")
		}
	}
	r := &request{from: from, id: p.ID, kind: p.Type}
	c.requests = append(c.requests, r)
	c.requests = c.requests[max(0, len(c.requests)-maxAnswered):]
	c.finish(r, PinsSet{c.config.Term, p.ID, ""})
}

// mayMoveTo returns the member of that name, or why the shard cannot move there now.
func (c *Coordinator) mayMoveTo(k *entityType, s *shard, name string) (to transport.Address, why string) {
	i := slices.IndexFunc(c.order, func(a transport.Address) bool { return a.Name == name && c.members[a].home(k.info.Name) })
	pin := k.pins.at(s.id.Shard)
	switch {
	case i < 0:
		return to, fmt.Sprintf("cannot move to %s, which is not up and reachable, or does not host the type", cmp.Or(name, "nobody"))
	case k.isPool():
		return to, "is an instance of a pool, and these are placed round the members"
	case s.home.IsZero():
		return to, "has no home to move from"
	case s.move != nil:
		return to, fmt.Sprintf("moves to %s already (shardctl moves shows it)", s.move.to.Name)
	case pin != "" && pin != name:
		return to, fmt.Sprintf("is pinned to %s (withdraw the pin first)", pin)
	case !c.view.Converged:
		return to, "cannot move: the view has not converged" + c.unreachable()
	}
	return c.order[i], ""
}

func describePins(pins []Pin) string {
	const most = 8
	var words []string
	for _, p := range pins[:min(most, len(pins))] {
		words = append(words, fmt.Sprintf("%d→%s", p.Shard, cmp.Or(p.Node, "any")))
	}
	if len(pins) > most {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// onBalance changes the pause at once, and answers when every registered member keeps it. Function
// looked answers requests to rebalance now.
func (c *Coordinator) onBalance(from transport.Address, b Balance) {
	if c.repeated(from, b.ID) {
		return
	}
	switch {
	case b.Want == WantNow && c.pause.On:
		c.send(from, Balanced{c.config.Term, b.ID, c.pause.String() + " (resume it first)", ""})
		return
	case b.Want == WantNow:
		c.wake()
		c.event(Event{What: RebalanceAsked, Reason: "by " + b.By})
	case c.pause.On != (b.Want == WantPause):
		c.pause = Pause{c.pause.Seq.Next(c.config.Term.Number), b.Want == WantPause, b.By, c.now}
		c.plan = true
		what := RebalanceResumed
		if c.pause.On {
			what = RebalancePaused
		}
		c.event(Event{What: what, Reason: "by " + b.By})
	}
	c.accept(&request{from: from, id: b.ID, now: b.Want == WantNow, seq: c.pause.Seq})
}

// wake lets shards with cancelled moves move at once.
func (c *Coordinator) wake() {
	c.plan = true
	for _, name := range c.names {
		for i := range c.types[name].shards {
			c.types[name].shards[i].rest = time.Time{}
		}
	}
}

// looked answers the requests to rebalance now. refused is why no shard moves, or "".
func (c *Coordinator) looked(begun, underWay int, refused string) {
	for _, r := range c.requests {
		if r.answer != nil || !r.now {
			continue
		}
		text := fmt.Sprintf("moves for balance: %d begin, %d are under way", begun, underWay)
		switch {
		case refused != "":
			text = ""
		case underWay == 0:
			text = "no shard needs to move"
		}
		c.finish(r, Balanced{Term: c.config.Term, ID: r.id, Refusal: refused, Text: text})
	}
}

func (c *Coordinator) finish(r *request, with Message) {
	r.answer = with
	c.send(r.from, with)
}

// learnKept adopts a registering member's pins and pause if they are the latest. A pause of a later
// term comes from another cluster, and could not be changed here.
func (c *Coordinator) learnKept(m *member, pins []Pins, pause Pause) {
	m.kept = map[string]placement.Epoch{"": pause.Seq}
	for _, p := range pins {
		if k := c.types[p.Type]; k != nil {
			m.kept[p.Type] = p.Seq
			if p.Seq > k.pins.Seq && slices.IsSortedFunc(p.Pins, func(a, b Pin) int { return cmp.Compare(a.Shard, b.Shard) }) {
				k.pins = Pins{p.Type, p.Seq, slices.Clone(p.Pins), p.Count}
			}
		}
	}
	if pause.Seq > c.pause.Seq && pause.Seq.Term() <= c.config.Term.Number {
		c.pause = pause
	}
	c.keepAt = c.now
}

func (c *Coordinator) onKept(from transport.Address, kind string, seq placement.Epoch) {
	m := c.members[from]
	m.kept[kind] = max(m.kept[kind], seq)
	c.answerKept()
}

// spread sends pins to registered members that lack them, and the pause to members that lack it.
func (c *Coordinator) spread() {
	c.keepAt = time.Time{}
	for _, a := range c.order {
		m := c.members[a]
		if !m.alive() {
			continue
		}
		for _, name := range c.names {
			if k := c.types[name]; m.register != nil && m.kept[name] < k.pins.Seq {
				c.send(a, KeepPins{c.config.Term, k.pins})
				c.keepAt = c.now.Add(c.config.ResendInterval)
			}
		}
		if m.kept[""] < c.pause.Seq {
			c.send(a, Paused{c.config.Term, c.pause})
			c.keepAt = c.now.Add(c.config.ResendInterval)
		}
	}
	c.answerKept()
}

// answerKept answers each request whose change all registered members keep. The change is then
// safe: the next coordinator waits until these members have registered, and learns the change from
// them.
func (c *Coordinator) answerKept() {
	for _, r := range c.requests {
		if r.answer != nil || r.now || slices.ContainsFunc(c.order, func(a transport.Address) bool {
			m := c.members[a]
			return m.alive() && m.register != nil && m.kept[r.kind] < r.seq
		}) {
			continue
		}
		if r.kind != "" {
			c.finish(r, PinsSet{c.config.Term, r.id, ""})
		} else {
			c.finish(r, Balanced{Term: c.config.Term, ID: r.id, Text: c.pause.String()})
		}
	}
}
