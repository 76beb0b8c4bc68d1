package coordinator

import (
	"cmp"
	"slices"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

const (
	// maxHistory is how many former tables are kept to answer with a difference.
	maxHistory = 64
	// maxPartEntries bounds one Table message: 16 bytes an entry at the worst is
	// 800 KB, below the 1 MiB that brokers take by default.
	maxPartEntries = 50_000
)

// Table is the current table; nil before recovery.
func (c *Coordinator) Table() *placement.Table { return c.table }

// version is that of the current table, or number 0 of this term before recovery.
func (c *Coordinator) version() placement.Version {
	if c.table == nil {
		return placement.Version{Term: c.config.Term}
	}
	return c.table.Version()
}

// set gives the shard a home under an epoch that was given out before.
func (c *Coordinator) set(s *shard, home transport.Address, e placement.Epoch) {
	if s.home != home {
		s.since = c.now
	}
	s.home, s.epoch, s.last = home, e, max(s.last, e)
	c.changed = append(c.changed, s.id)
}

// give gives the shard a home under a new epoch; a zero home leaves the
// shard without one, and the former home without the right to it.
func (c *Coordinator) give(s *shard, home transport.Address) { c.set(s, home, c.nextEpoch(s)) }

// publish makes the next table from the changes of this step and sends the difference to
// every member. The first table is sent even if it is empty: it says that this term has
// begun.
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

// onTableRequest answers with the difference, or with the whole table when the asker's is
// of another term or too old. Before recovery there is none: all members get the first one.
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

// announce tells all members the current version now and then, and those that
// recovery waits for more often.
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

// Answer answers a [TableRequest] of a process with an older table: with all of the own one. It
// returns nil when the asker's table is not older. Gateways serve outside clients so.
func Answer(t *placement.Table, r TableRequest) []Table {
	if t == nil || r.Have.Compare(t.Version()) >= 0 {
		return nil
	}
	return Split(t.Full())
}

// Split makes messages of a difference, each small enough to be sent.
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

// join puts the parts of one difference together again.
func join(parts []Table) placement.Diff {
	slices.SortFunc(parts, func(a, b Table) int { return cmp.Compare(a.Part, b.Part) })
	d := parts[0].Diff
	for _, p := range parts[1:] {
		d.Entries = slices.Concat(d.Entries, p.Entries)
		d.Gone = slices.Concat(d.Gone, p.Gone)
	}
	return d
}
