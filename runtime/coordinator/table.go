package coordinator

import (
	"cmp"
	"slices"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

const (
	maxHistory = 64
	// maxPartEntries bounds a Table message: at 16 bytes an entry at worst 800 KB, below the
	// brokers' default of 1 MiB.
	maxPartEntries = 50_000
)

// Table returns the current table, or nil before recovery.
func (c *Coordinator) Table() *placement.Table { return c.table }

func (c *Coordinator) version() placement.Version {
	if c.table == nil {
		return placement.Version{Term: c.config.Term}
	}
	return c.table.Version()
}

func (c *Coordinator) set(s *shard, home transport.Address, e placement.Epoch) {
	if s.home != home {
		s.since = c.now
	}
	s.home, s.at, s.epoch, s.last = home, c.members[home], e, max(s.last, e)
	c.changed = append(c.changed, s.id)
}

// give gives the shard a home under a new epoch. If home is zero, the shard has none from then on.
func (c *Coordinator) give(s *shard, home transport.Address) { c.set(s, home, c.nextEpoch(s)) }

// publish sends this step's changes to every member. The first table is sent even if empty: it
// announces the term.
func (c *Coordinator) publish() {
	first := c.table == nil
	if !first && len(c.changed) == 0 && len(c.gone) == 0 {
		return
	}
	d := placement.Diff{From: c.version(), To: c.version(), Full: first, Gone: c.gone}
	d.To.Seq++
	if first {
		d.From = placement.Version{}
	}
	slices.SortFunc(c.changed, placement.ShardID.Compare)
	for _, id := range slices.Compact(c.changed) {
		s := c.shard(id)
		d.Entries = append(d.Entries, placement.Entry{ShardID: id, Home: s.home, Epoch: s.epoch})
	}
	next, err := c.table.Apply(d)
	if err != nil {
		invariant.Failf("coordinator's own table: %v", err)
	}
	if !first {
		c.history = append(c.history, c.table)
		c.history = c.history[max(0, len(c.history)-maxHistory):]
	}
	c.table, c.changed, c.gone = next, nil, nil
	for _, t := range Split(d) {
		c.send(transport.Address{}, t)
	}
}

// onTableRequest answers with the difference from the sender's table, or with the whole table if
// the sender's is too old or unknown. Before recovery it does not answer: all members will get the
// first table.
func (c *Coordinator) onTableRequest(from transport.Address, r TableRequest) {
	if c.table == nil {
		return
	}
	if r.Have.Compare(c.version()) >= 0 {
		c.send(from, TableStatus{c.version()})
		return
	}
	d := c.table.Full()
	if i, ok := slices.BinarySearchFunc(c.history, r.Have, func(t *placement.Table, v placement.Version) int {
		return t.Version().Compare(v)
	}); ok {
		d = c.history[i].Diff(c.table)
	}
	for _, t := range Split(d) {
		c.send(from, t)
	}
}

func (c *Coordinator) announce() {
	if !c.now.Before(c.statusAt) {
		c.statusAt = c.now.Add(c.config.StatusInterval)
		c.nudgeAt = c.now.Add(c.config.ResendInterval / 2)
		c.send(transport.Address{}, TableStatus{c.version()})
		return
	}
	if c.recovered || c.now.Before(c.nudgeAt) {
		return
	}
	c.nudgeAt = c.now.Add(c.config.ResendInterval / 2)
	for _, a := range c.order {
		if c.members[a].awaited() {
			c.send(a, TableStatus{c.version()})
		}
	}
}

// Answer answers a [TableRequest] of a client, at a member with table t. It returns the parts of
// the whole table, or nil if the client's table is not older than t.
func Answer(t *placement.Table, r TableRequest) []Table {
	if t == nil || r.Have.Compare(t.Version()) >= 0 {
		return nil
	}
	return Split(t.Full())
}

// Split splits a difference into messages that are each small enough to be sent.
func Split(d placement.Diff) []Table {
	parts := max(1, (len(d.Entries)+maxPartEntries-1)/maxPartEntries)
	tables := make([]Table, 0, parts)
	for i := range parts {
		part := d
		part.Entries = d.Entries[i*maxPartEntries : min(len(d.Entries), (i+1)*maxPartEntries)]
		if i > 0 {
			part.Gone = nil
		}
		tables = append(tables, Table{Diff: part, Part: uint32(i), Parts: uint32(parts)})
	}
	return tables
}

func join(parts []Table) placement.Diff {
	slices.SortFunc(parts, func(a, b Table) int { return cmp.Compare(a.Part, b.Part) })
	d := parts[0].Diff
	for _, p := range parts[1:] {
		d.Entries = slices.Concat(d.Entries, p.Entries)
		d.Gone = slices.Concat(d.Gone, p.Gone)
	}
	return d
}
