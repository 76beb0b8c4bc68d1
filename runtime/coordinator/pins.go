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

// maxAnswered bounds the requests that are remembered to be answered again.
const maxAnswered = 64

// A pinRequest is a [SetPins] under way or done.
type pinRequest struct {
	from transport.Address
	id   uint64
	kind string
	seq  placement.Epoch // of the pins that it made
	done bool
}

// CheckPins returns an error for pins that cannot be told to others. Pins are
// in order of shard.
func CheckPins(kind string, pins []Pin) error {
	if kind == "" || len(kind) > maxKindBytes {
		return fmt.Errorf("check pins: type name of %d bytes: want 1 to %d", len(kind), maxKindBytes)
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

// onSetPins changes pins at once, and answers when every registered member keeps them.
func (c *Coordinator) onSetPins(from transport.Address, p SetPins) {
	for _, r := range c.pinRequests {
		if r.from == from && r.id == p.ID {
			if r.done {
				c.send(from, PinsSet{c.config.Term, p.ID, ""})
			}
			return
		}
	}
	if !c.recovered {
		return // it asks again
	}
	k := c.kinds[p.Kind]
	if k == nil {
		c.send(from, PinsSet{c.config.Term, p.ID, fmt.Sprintf("no member hosts %s (start one that does)", p.Kind)})
		return
	}
	for _, pin := range p.Pins {
		if c.shard(placement.ShardID{Kind: p.Kind, Shard: pin.Shard}) == nil {
			c.send(from, PinsSet{c.config.Term, p.ID, fmt.Sprintf("%s has no shard %d, only %d to %d", p.Kind, pin.Shard, k.info.Shards, 2*k.info.Shards-1)})
			return
		}
	}
	k.pins.change(p.Kind, p.Pins)
	k.pins.Seq = k.pins.Seq.Next(c.config.Term.Number)
	c.plan = true
	c.pinRequests = append(c.pinRequests, &pinRequest{from, p.ID, p.Kind, k.pins.Seq, false})
	c.pinRequests = c.pinRequests[max(0, len(c.pinRequests)-maxAnswered):]
	c.event(Event{What: Pinned, Shard: placement.ShardID{Kind: p.Kind}, Count: len(p.Pins), Reason: describePins(p.Pins) + ", as " + from.Name + " asks"})
	c.spreadPins()
}

// describePins lists the first pins, for people.
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

// keepPins takes the pins that a node kept. The latest change counts.
func (c *Coordinator) keepPins(m *member, all []Pins) {
	for _, p := range all {
		if k := c.kinds[p.Kind]; k != nil {
			m.kept[p.Kind] = p.Seq
			if p.Seq > k.pins.Seq && slices.IsSortedFunc(p.Pins, func(a, b Pin) int { return cmp.Compare(a.Shard, b.Shard) }) {
				k.pins = Pins{p.Kind, p.Seq, slices.Clone(p.Pins)}
				c.plan = true
			}
		}
	}
}

func (c *Coordinator) onPinsKept(from transport.Address, p PinsKept) {
	m := c.members[from]
	if m.kept == nil || m.register == nil {
		return
	}
	m.kept[p.Kind] = max(m.kept[p.Kind], p.Seq)
	c.answerSet()
}

// answerSet answers the requests whose pins every registered member keeps.
func (c *Coordinator) answerSet() {
	for _, r := range c.pinRequests {
		if r.done {
			continue
		}
		r.done = true
		for _, a := range c.order {
			if m := c.members[a]; m.alive() && m.register != nil && m.kept[r.kind] < r.seq {
				r.done = false
			}
		}
		if r.done {
			c.send(r.from, PinsSet{c.config.Term, r.id, ""})
		}
	}
}

// spreadPins sends the pins to every registered member that does not keep them,
// every resend interval.
func (c *Coordinator) spreadPins() {
	c.pinsAt = time.Time{}
	for _, name := range c.names {
		k := c.kinds[name]
		if k.pins.Seq == 0 {
			continue
		}
		for _, a := range c.order {
			if m := c.members[a]; m.alive() && m.register != nil && m.kept[name] < k.pins.Seq {
				c.send(a, KeepPins{c.config.Term, k.pins})
				c.pinsAt = c.now.Add(c.config.ResendInterval)
			}
		}
	}
	c.answerSet()
}
