package table

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// If few nodes join at once, each writes its own row, and probes every active member. Many would
// conflict in their writes, and probe each other one after the other. So a joiner that sees a
// crowd asks the guides for a row and, once the members that it probes have answered, for its
// admission. The first guide writes up to maxRows rows at once. It admits nobody while further
// joiners come, so that most of a crowd has to probe few members.
//
// A joiner of a crowd probes the members that were active when it first knew its row, and the
// guides of the version with which it asks. It need not probe other members that became active
// since: most of the crowd. So, unlike in Orleans, two members of a crowd may be active that do
// not reach each other; neighbours on the ring find that by their probes, others do not. Leases do
// not need more, because those members have known the joiner's row since they became active; see
// doc.go.
//
// While nobody is active, the node that made the first row is asked.

const (
	// crowd is the number of joiners with rows, or with hellos, above which a joiner asks guides.
	crowd = 8
	// maxRows and maxRowBytes bound the rows of one write, and half the transport's message limit
	// does too. Sizes are estimates. A store may count more, so maxRowBytes is far below its limit.
	maxRows     = 100
	maxRowBytes = 64 << 10
	// admitEvery is the least time between one member's writes for joiners.
	admitEvery = 20 * time.Millisecond
	// Nobody is admitted within admitQuiet after a joiner got a row, unless one has waited for
	// admitPatience.
	admitQuiet    = 100 * time.Millisecond
	admitPatience = 2 * time.Second
	// askEvery is the time between two requests of one joiner, doubled in large clusters. A guide
	// forgets a joiner that has not asked for askLife.
	askEvery = 500 * time.Millisecond
	askLife  = 3 * time.Second
	// A joiner writes its row itself after askQuiet without a change of the table, and after
	// askPatience in any case. A random time of up to spreadPer for each joiner of the crowd is
	// added to both.
	askQuiet    = time.Second
	askPatience = 5 * time.Second
	spreadPer   = 2 * time.Millisecond
)

// spread returns the time over which n nodes spread their simultaneous actions.
func (m *Machine) spread(n int) time.Duration {
	if n <= crowd {
		return 0
	}
	return time.Duration(n) * spreadPer
}

// luckOf returns this joiner's part of a spread, always the same share.
func (m *Machine) luckOf(spread time.Duration) time.Duration {
	j := &m.joiner
	if spread > 0 && j.luck == 0 {
		j.luck = 1 - m.Random.Float64()
	}
	return time.Duration(j.luck * float64(spread))
}

// crowded reports whether so many nodes join that this joiner asks others to write.
func (m *Machine) crowded() bool {
	j, s := &m.joiner, m.table.Summary()
	j.crowd = j.crowd || len(j.heard) > crowd || m.client.rivals > crowd/2 || len(s.Ring)-len(s.Ages) > crowd
	return j.crowd
}

// together reports whether this node need not probe r, an active member: r joined with this node in
// a crowd, is no guide, and knew this node's row when r became active.
func (m *Machine) together(r *rows.Row) bool {
	return m.joiner.version != 0 && uint64(r.UpNumber) > m.joiner.version && m.crowded() && !slices.Contains(m.guides(), r.Address)
}

// askable returns the nodes that a joiner asks: the guides or, without guides, the node that made
// the first row.
func (m *Machine) askable() []transport.Address {
	if guides := m.guides(); len(guides) > 0 {
		return guides
	}
	s := m.table.Summary()
	for _, r := range s.Ring {
		if r.Founder == r.Address {
			return []transport.Address{r.Address}
		}
	}
	return nil
}

// waitsToAsk reports whether this joiner has asked and it is too early to ask again.
func (m *Machine) waitsToAsk() bool {
	j := &m.joiner
	if j.asking.IsZero() || !m.Now.Before(j.asks) {
		return false
	}
	m.WakeAt(j.asks)
	return true
}

// asks lets a joiner of a crowd ask others for its write. It returns false if the joiner must
// write itself.
func (m *Machine) asks() bool {
	j := &m.joiner
	list := m.askable()
	if !m.crowded() || len(list) == 0 || list[0] == m.Config.Self {
		return false
	}
	if j.asking.IsZero() {
		j.asking = m.Now
	}
	s := m.table.Summary()
	luck := m.luckOf(m.spread(len(j.heard) + len(s.Ring) - len(s.Ages)))
	quiet := core.Later(j.asking, m.adopted())
	if at := core.Earlier(quiet.Add(askQuiet), j.asking.Add(askPatience)).Add(luck); !m.Now.Before(at) {
		return false
	}
	j.asks = m.Now.Add(m.larger(askEvery))
	m.WakeAt(j.asks)
	for _, g := range list {
		m.Send(g, message.Join{
			Target: message.TargetOf(g), Roles: m.Config.Roles, Meta: m.Config.Meta, Compat: m.Config.Compat,
			Version: j.checked, Server: m.place, Proved: m.Phase == core.Asking,
		})
	}
	return true
}

// adopted returns when this node adopted the known version.
func (m *Machine) adopted() time.Time {
	if len(m.known) == 0 {
		return time.Time{}
	}
	return m.known[len(m.known)-1].at
}

// admits holds the joiners that have asked this node.
type admits struct {
	list  []*request // in the order of asking
	by    map[transport.Address]*request
	next  time.Time // no write before that
	grown time.Time // when the last joiner got a row
	most  int       // the most joiners in one write, after failures; 0 means that nothing has failed
}

// A request is what a joiner asks for: a row or, if join.Proved is set, admission.
type request struct {
	node        transport.Address
	join        message.Join
	first, last time.Time
	alone       bool // a write for it alone has failed: it has to write itself
}

// asked notes the request of a joiner.
func (m *Machine) asked(from transport.Address, msg message.Join) {
	a, r := &m.admits, m.table.Row(from)
	if r != nil && r.Status != gossip.Joining || !slices.Contains(m.askable(), m.Config.Self) {
		return
	}
	q := a.by[from]
	if q == nil {
		if a.by == nil {
			a.by = make(map[transport.Address]*request)
		}
		q = &request{node: from}
		a.by[from] = q
		a.list = append(a.list, q)
	}
	if q.first.IsZero() || q.join.Proved != msg.Proved {
		q.first, q.alone = m.Now, false
	}
	q.join, q.last = msg, m.Now
}

// wroteAdmission adapts the size of writes for joiners when one of them ends. If the write has
// failed, one joiner in it may be the reason, so the next write is for half as many joiners. After
// each success the size doubles.
func (m *Machine) wroteAdmission(w *core.TableWrite, done bool) {
	a, n := &m.admits, 0
	var last *request
	for i := range w.Rows {
		if q := a.by[w.Rows[i].Address]; q != nil {
			n, last = n+1, q
		}
	}
	switch {
	case n == 0:
	case done:
		a.most = min(2*a.most, maxRows-1)
	default:
		a.most, last.alone = max(n/2, 1), n == 1
	}
}

// wantedAdmission returns a write for joiners that have asked. The guides after the first wait longer.
func (m *Machine) wantedAdmission() (w core.TableWrite, ok bool) {
	a := &m.admits
	if len(a.list) == 0 {
		return w, false
	}
	if m.Now.Before(a.next) {
		m.WakeAt(a.next)
		return w, false
	}
	rank := slices.Index(m.askable(), m.Config.Self)
	early := func() bool {
		at := core.Later(a.list[0].first, m.adopted()).Add(time.Duration(rank) * fenceTurn)
		if !m.Now.Before(at) {
			return false
		}
		m.WakeAt(at)
		return true
	}
	if rank >= 0 && early() { // looking through a long list at each step takes long
		return w, false
	}
	a.list = slices.DeleteFunc(a.list, func(q *request) bool {
		r := m.table.Row(q.node)
		over := rank < 0 || r != nil && r.Status != gossip.Joining || m.Now.Sub(q.last) > askLife
		if over {
			delete(a.by, q.node)
		}
		return over
	})
	if len(a.list) == 0 || early() {
		return w, false
	}
	a.next = m.Now.Add(admitEvery)
	if w.Rows = m.admitted(); len(w.Rows) == 0 {
		m.WakeAt(a.next)
		return w, false
	}
	if len(w.Rows) > 1 || m.client.touch { // the own row makes the version a proof; in a crowd no version lasts long
		w.Rows = append(w.Rows, *m.self())
	}
	rows.Sorted(w.Rows)
	return w, true
}

// admitted returns the rows to write for joiners: first new rows of joiners that have none, then
// the rows of those that become active.
func (m *Machine) admitted() (list []rows.Row) {
	most, size, bytes := cmp.Or(m.admits.most, maxRows-1), 0, maxRowBytes
	if m.limit > 0 {
		bytes = min(bytes, m.limit/2) // all members get the change
	}
	fits := func(q *request) bool {
		size += 256 + gossip.DescriptionSize(q.join.Roles, q.join.Meta, q.join.Compat)
		return len(list) < most && (size <= bytes || len(list) == 0)
	}
	for _, q := range m.admits.list {
		if q.alone || m.table.Row(q.node) != nil {
			continue
		}
		if !fits(q) {
			return list
		}
		list = append(list, rows.Row{
			Member: gossip.Member{Address: q.node, Status: gossip.Joining, Roles: q.join.Roles, Meta: q.join.Meta},
			Compat: q.join.Compat, Founder: m.self().Founder, Server: q.join.Server, Started: m.Now, Alive: m.Now,
		})
	}
	if len(list) > 0 {
		m.admits.grown = m.Now
	}
	patient := m.Now.Before(m.admits.grown.Add(admitQuiet)) && !slices.ContainsFunc(m.admits.list, func(q *request) bool {
		return q.join.Proved && m.Now.Sub(q.first) > admitPatience
	})
	if patient || len(m.table.Summary().Ages) == 0 {
		return list // the first becomes active by itself
	}
	var recent []*rows.Row // active members whose settings a joiner may not have seen
	for _, q := range m.admits.list {
		r := m.table.Row(q.node)
		if r == nil || !q.join.Proved || q.alone || m.namesake(r) {
			continue
		}
		if recent == nil {
			recent = m.since(m.admits.list)
		}
		if slices.ContainsFunc(recent, func(o *rows.Row) bool { return uint64(o.UpNumber) > q.join.Version && m.differ(r, o) }) {
			continue
		}
		if !fits(q) {
			return list
		}
		row := *r
		row.Status, row.UpNumber, row.Server = gossip.Up, uint32(m.table.Version)+uint32(len(list))+1, q.join.Server
		list = append(list, row)
		recent = append(recent, &row)
	}
	return list
}

// since returns the members that became active after the lowest version checked by a joiner in
// list.
func (m *Machine) since(list []*request) []*rows.Row {
	seen := m.table.Version
	for _, q := range list {
		if q.join.Proved {
			seen = min(seen, q.join.Version)
		}
	}
	ages := m.table.Summary().Ages
	i, _ := slices.BinarySearchFunc(ages, seen, func(r *rows.Row, v uint64) int {
		if uint64(r.UpNumber) > v {
			return 1
		}
		return -1
	})
	return slices.Clone(ages[i:])
}

// differ reports whether two members have settings that must not differ.
func (m *Machine) differ(a, b *rows.Row) bool {
	return gossip.Incompatible(a.Name, a.Compat, b.Name, b.Compat) != "" || m.Mismatch(a.Member, []gossip.Member{b.Member}) != ""
}

// namesake reports whether another member, or an earlier joiner, has the name of joiner r.
func (m *Machine) namesake(r *rows.Row) bool {
	at, _ := m.table.Index(transport.Address{Name: r.Name})
	for i := at; i < len(m.table.Rows) && m.table.Rows[i].Name == r.Name; i++ {
		if o := &m.table.Rows[i]; o.Address != r.Address && !o.Gone() && (o.Active() || o.Incarnation < r.Incarnation) {
			return true
		}
	}
	return false
}
