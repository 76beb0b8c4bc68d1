package table

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// A client makes this node's requests to the table. At most one read, one write and one write of
// I-am-alive are under way at a time.
type client struct {
	number   uint64
	want     bool // a read, as soon as possible
	reading  *core.TableRead
	writing  *core.TableWrite
	alive    *core.TableAlive
	began    time.Time // of the read
	begun    time.Time // of the write
	refresh  time.Time // when the table is read next
	aliveAt  time.Time // when I-am-alive is written next
	retry    time.Time // no request before that, after failures
	failures int
	rivals   int // conflicts in a row
	// passed is the version at which the last write met a conflict. The table has a later one, so
	// no further write replaces that version.
	passed uint64
	// contact is when this node began the write that made the known version, if it wrote its own
	// row too; else zero. At some later moment the version was certainly the table's. A read does
	// not prove that, because it may return an earlier table.
	contact time.Time
	touch   bool              // a write of the own row is wanted, for a proof
	writer  transport.Address // the member that broadcast the known version, if any did
	wrote   time.Time         // when this node adopted that version
	asked   bool              // the writer was asked for a proof
	reached time.Time         // when the last answered request began
	ahead   []ahead           // changes of later versions
	// unsure are death declarations of unknown outcome, with the versions that they would replace:
	// each may still be written while the table has that version.
	unsure []unsure
}

// An ahead is a change of the table that another member has sent, and that is not applied yet. The
// change follows the known version, or a later version whose change is missing here.
type ahead struct {
	from   transport.Address
	change message.Snapshot
}

type unsure struct {
	node    transport.Address
	version uint64
}

const (
	retryFirst = 100 * time.Millisecond
	retryLast  = 2 * time.Second
	rivalFirst = 20 * time.Millisecond
	// readRecent is how recently the table must have answered for a death to be written.
	readRecent = 2 * time.Second
	maxAhead   = 64
)

// backOff returns the time of the next attempt after a number of failures. The pause is first,
// doubles with each failure up to retryLast, and is shortened at random by up to half.
func (m *Machine) backOff(first time.Duration, failures int) time.Time {
	d := min(first<<min(failures-1, 10), retryLast)
	return m.Now.Add(d/2 + time.Duration(m.Random.Int64N(int64(d)/2+1)))
}

func (c *client) next() uint64 {
	c.number++
	return c.number
}

// runClient begins the requests to the table that are due.
func (m *Machine) runClient() {
	c := &m.client
	m.expire()
	if m.Now.Before(c.retry) {
		m.WakeAt(c.retry)
		return
	}
	if c.writing == nil && m.table != nil && (c.rivals == 0 || m.table.Version > c.passed) {
		if w, ok := m.wanted(); ok {
			w.Number, w.Version, w.Within = c.next(), m.table.Version, m.Config.Table.Within
			if r := m.ownRow(w.Rows); r != nil {
				r.Touched = w.Version + 1
			}
			c.writing, c.begun = &w, m.Now
			m.Out.WriteTable = &w
			m.WakeAt(m.Now.Add(2 * w.Within))
		}
	}
	if c.alive == nil && m.Phase == core.Joined && m.Due(&c.aliveAt, m.Config.Table.AliveInterval) {
		c.alive = &core.TableAlive{Number: c.next(), At: m.Now, Within: m.Config.Table.Within}
		m.Out.WriteAlive = c.alive
	}
	if c.reading == nil && (m.Due(&c.refresh, m.Config.Table.Refresh) || c.want) {
		c.want = false
		c.refresh = m.Now.Add(m.Config.Table.Refresh)
		c.reading, c.began = &core.TableRead{Number: c.next(), Within: m.Config.Table.Within}, m.Now
		m.Out.ReadTable = c.reading
		m.WakeAt(m.Now.Add(2 * c.reading.Within))
	}
}

// expire gives up requests that the driver has not answered in time.
func (m *Machine) expire() {
	c, patience := &m.client, 2*m.Config.Table.Within
	if c.reading != nil && m.Now.Sub(c.began) >= patience {
		m.onRows(core.TableRows{Number: c.reading.Number})
	}
	if c.writing != nil && m.Now.Sub(c.begun) >= patience {
		m.onWritten(core.TableWritten{Number: c.writing.Number})
	}
	if c.alive != nil && m.Now.Sub(c.alive.At) >= patience {
		m.onWritten(core.TableWritten{Number: c.alive.Number})
	}
}

func (m *Machine) failed() {
	m.client.failures++
	m.client.retry = m.backOff(retryFirst, m.client.failures)
}

func (m *Machine) reached(begun time.Time) {
	m.client.failures, m.client.retry = 0, time.Time{}
	m.client.reached = core.Later(m.client.reached, begun)
}

// onRows handles the answer to a read of the table.
func (m *Machine) onRows(in core.TableRows) {
	c := &m.client
	if c.reading == nil || c.reading.Number != in.Number {
		return
	}
	c.reading = nil
	if in.Table == nil {
		c.want = true
		m.failed()
		return
	}
	m.reached(c.began)
	if c.rivals > 0 && in.Table.Version <= c.passed { // the answer is older than the conflict
		c.want = true
		c.rivals++
		c.retry = m.backOff(rivalFirst, c.rivals)
	}
	if m.table != nil && in.Table.Version < m.table.Version {
		return
	}
	m.adopt(in.Table)
}

// onWritten handles the answer to a write or an I-am-alive.
func (m *Machine) onWritten(in core.TableWritten) {
	c := &m.client
	switch {
	case c.alive != nil && c.alive.Number == in.Number:
		at := c.alive.At
		c.alive = nil
		if !in.Done {
			c.aliveAt = core.Earlier(c.aliveAt, m.backOff(retryLast, 1))
			c.want = c.want || in.Conflict
			return
		}
		m.stand.aliveKnown(at)
		m.reached(at)
	case c.writing != nil && c.writing.Number == in.Number:
		w := c.writing
		c.writing = nil
		switch {
		case in.Done:
			c.rivals = 0
			m.reached(c.begun)
			m.wroteAdmission(w, true)
			m.written(w, in.Version)
		case in.Conflict:
			c.rivals++
			c.want, c.passed = true, max(c.passed, w.Version)
			m.reached(c.begun)
			c.retry = m.Now
			if c.rivals > 1 {
				c.retry = m.backOff(rivalFirst, c.rivals)
			}
		default:
			if len(w.Rows) == 1 && w.Rows[0].Status == gossip.Down {
				c.unsure = append(c.unsure, unsure{w.Rows[0].Address, w.Version})
			}
			m.wroteAdmission(w, false)
			c.want = true
			m.failed()
		}
	}
}

// written adopts the table after a write of this node, and broadcasts the change.
func (m *Machine) written(w *core.TableWrite, version uint64) {
	change, own := &rows.Table{Version: version, Rows: w.Rows}, m.ownRow(w.Rows)
	m.Broadcast(message.Snapshot{Base: w.Version, Table: change, Deleted: w.Delete})
	if own != nil && own.Status == gossip.Removed {
		m.Emit(core.SelfRemoved{})
		m.End()
		return
	}
	if m.table.Version > w.Version {
		m.client.want = true // a later version has arrived before the answer
		return
	}
	m.adopt(m.table.Apply(change, w.Delete))
	if m.Phase == core.Ended {
		return
	}
	c := &m.client
	c.touch, c.writer = false, m.Config.Self
	if own != nil { // a proof must be seen in the own row: see fence.go
		c.contact = c.begun
		m.wasWritten(c.begun)
	}
}

// onSnapshot handles the table, or a change of it, that another member has sent.
func (m *Machine) onSnapshot(from transport.Address, msg message.Snapshot) {
	if msg.Table == nil || m.table == nil || msg.Table.Version <= m.table.Version {
		return
	}
	if m.Phase == core.Searching {
		// A node without a row believes only members that a read has shown: there may be another
		// table. A node that writes its own row reads anyway.
		if r := m.table.Row(from); r == nil || r.Gone() || msg.Base != m.table.Version || !m.crowded() {
			m.client.want = m.client.want || m.crowded()
			return
		}
	}
	switch c := &m.client; {
	case msg.Base == 0:
		m.adopt(msg.Table)
	case msg.Base < m.table.Version:
		m.sendStand(from) // it answers with the whole table
	case len(c.ahead) < maxAhead:
		c.ahead = append(c.ahead, ahead{from, msg})
		if msg.Base > m.table.Version { // the changes before it may be on their way
			m.stand.due = core.Earlier(m.stand.due, m.Now.Add(recentChange))
		}
	}
}

// catchUp adopts the changes that follow the known version.
func (m *Machine) catchUp() {
	c := &m.client
	for m.Phase != core.Ended && len(c.ahead) > 0 {
		i := slices.IndexFunc(c.ahead, func(a ahead) bool { return a.change.Base == m.table.Version })
		if i < 0 {
			break
		}
		a := c.ahead[i]
		m.adopt(m.table.Apply(a.change.Table, a.change.Deleted))
		c.writer, c.wrote, c.asked = a.from, m.Now, false
		c.ahead = slices.DeleteFunc(c.ahead, func(a ahead) bool { return a.change.Table.Version <= m.table.Version })
	}
}

// adopt replaces the known table by t, which has the same version or a later one.
func (m *Machine) adopt(t *rows.Table) {
	later := m.table == nil || t.Version > m.table.Version
	m.put(t)
	if !later {
		return
	}
	m.noteVersion(t.Version)
	c := &m.client
	c.contact, c.writer = time.Time{}, transport.Address{}
	c.unsure = slices.DeleteFunc(c.unsure, func(u unsure) bool { return u.version < t.Version })
	if m.Phase != core.Joined && m.Phase != core.Asking {
		return
	}
	r := m.self()
	switch {
	case r == nil:
		m.EndDead("the table has no row of this node any more")
	case r.Status == gossip.Down:
		m.EndDead("the table has this node as dead" + m.blame(r))
	case r.Status == gossip.Removed:
		m.Emit(core.SelfRemoved{})
		m.End()
	case r.Active() && m.Phase == core.Asking:
		m.entered()
	}
	if m.Phase == core.Ended {
		return
	}
	m.noteDeaths()
}

// blame returns a text with the names of the members that voted for this node's death.
func (m *Machine) blame(r *rows.Row) string {
	text := ""
	for _, s := range r.Suspicions {
		if text == "" {
			text = ", suspected by "
		} else {
			text += " and "
		}
		text += s.By.Name
	}
	return text
}

// EndDead ends this node's membership, because the table has it as dead.
func (m *Machine) EndDead(reason string) {
	m.Emit(core.SelfDowned{Reason: reason})
	m.End()
}

// put sets the known table and the data that follow from it.
func (m *Machine) put(t *rows.Table) {
	before := m.table
	m.noteEnded(t)
	m.table, m.stale, m.row = t, true, -1
	m.noteSuspicions(before)
	m.keepPast()
	if i, ok := t.Index(m.Config.Self); ok {
		m.row = i
	}
	if len(m.peers) > 2*len(t.Rows)+16 {
		//arch:order-free each peer is treated alike
		for a := range m.peers {
			if t.Row(a) == nil {
				delete(m.peers, a)
			}
		}
	}
}

// wanted returns the most urgent write that this node wants now.
func (m *Machine) wanted() (core.TableWrite, bool) {
	switch m.Phase {
	case core.Searching:
		return m.wantedRow()
	case core.Asking:
		if m.leaving {
			return m.change(m.self(), func(r *rows.Row) { r.Status, r.Ended = gossip.Removed, m.Now }), true
		}
		if w, ok := m.wantedEntry(); ok {
			return w, true
		}
		if w, ok := m.wantedAdmission(); ok {
			return w, true
		}
		if w, ok := m.wantedDeath(); ok {
			return w, true
		}
		if m.unanswered() {
			return m.wantedFence()
		}
		return core.TableWrite{}, false
	case core.Joined:
	default:
		return core.TableWrite{}, false
	}
	self := m.self()
	switch {
	case self.Status == gossip.Leaving && m.exitReady:
		return m.change(self, func(r *rows.Row) { r.Status, r.ExitReady, r.Ended = gossip.Removed, true, m.Now }), true
	case m.leaving && self.Status == gossip.Up:
		return m.change(self, func(r *rows.Row) { r.Status = gossip.Leaving }), true
	case m.Conn.Connected && !m.Conn.Alone && self.Server != m.place:
		return m.change(self, func(r *rows.Row) { r.Server = m.place }), true
	}
	if w, ok := m.wantedFence(); ok {
		return w, true
	}
	if w, ok := m.wantedDeath(); ok {
		return w, true
	}
	if w, ok := m.wantedAdmission(); ok {
		return w, true
	}
	if m.client.touch || len(m.client.unsure) > 0 {
		return m.change(self, func(*rows.Row) {}), true // the next version is a proof, and ends what is unsure
	}
	return m.wantedCleaning()
}

// change returns a write of row r as modified by change.
func (m *Machine) change(r *rows.Row, change func(*rows.Row)) core.TableWrite {
	row := *r
	change(&row)
	return core.TableWrite{Rows: []rows.Row{row}}
}

// ownRow returns this node's row in a write, or nil.
func (m *Machine) ownRow(list []rows.Row) *rows.Row {
	for i := range list {
		if list[i].Address == m.Config.Self {
			return &list[i]
		}
	}
	return nil
}

// maxCleaned is the largest number of rows that one write deletes.
const maxCleaned = 100

// wantedCleaning returns a write that deletes the rows of members that left or were fenced more than
// CleanAfter ago. Only the oldest member makes it.
func (m *Machine) wantedCleaning() (w core.TableWrite, ok bool) {
	if m.guides()[0] != m.Config.Self {
		return w, false
	}
	for _, r := range m.table.Summary().Ended {
		at := r.Ended.Add(m.Config.Table.CleanAfter)
		if m.Now.Before(at) {
			m.WakeAt(at)
			continue
		}
		if !m.knewBefore(r.Address, 2*m.Config.JoinTimeout) {
			continue // clocks may be wrong, and its joiner could make the row again
		}
		if w.Delete = append(w.Delete, r.Address); len(w.Delete) == maxCleaned {
			break
		}
	}
	return w, len(w.Delete) > 0
}
