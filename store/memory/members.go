package memory

import (
	"context"
	"slices"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

type members struct {
	version membertable.Version
	deleted membertable.Version // version of the last Delete
	rows    []membertable.Row   // sorted
	shared  bool                // snapshots share rows
	stale   membertable.Snapshot
}

// Members returns the membership table of a cluster. It implements [membertable.Provider].
// Operations on the table have the faults of the client. With Fault.Follower, a read returns a
// state that was read before.
func (c *Client) Members(cluster string) membertable.Table { return memberTable{c, cluster} }

type memberTable struct {
	client  *Client
	cluster string
}

// do runs an operation under the server's lock.
func (t memberTable) do(ctx context.Context, op string, apply func(*members, Fault) error) error {
	err := membertable.CheckName(t.cluster)
	if err == nil {
		err = t.client.carry(ctx, Op{Name: op, Key: t.cluster, Write: op != membertable.OpRead}, func(met Fault) error {
			all := t.client.server.members
			if all[t.cluster] == nil {
				all[t.cluster] = &members{}
			}
			return apply(all[t.cluster], met)
		})
	}
	return membertable.Fail(op, t.cluster, err)
}

// Read implements [membertable.Table].
func (t memberTable) Read(ctx context.Context, since membertable.Version) (found membertable.Snapshot, err error) {
	err = t.do(ctx, membertable.OpRead, func(m *members, met Fault) error {
		found = m.read(since, met.Follower)
		return nil
	})
	if err != nil {
		return membertable.Snapshot{}, err
	}
	return found, nil
}

// Write implements [membertable.Table].
func (t memberTable) Write(ctx context.Context, expect membertable.Version, rows ...membertable.Row) (version membertable.Version, err error) {
	all, err := membertable.EncodeAll(rows)
	copied := make([]membertable.Row, len(all)) // with times as a table keeps them
	for i, data := range all {
		if err == nil {
			copied[i], err = membertable.Decode(data)
		}
	}
	if err != nil {
		return 0, membertable.Fail(membertable.OpWrite, t.cluster, err)
	}
	err = t.do(ctx, membertable.OpWrite, func(m *members, met Fault) error {
		if m.version != expect {
			return store.ErrConflict
		}
		m.write(copied)
		if met.Loss != LoseTouch { // else the caller has gone on
			version = m.version
		}
		return nil
	})
	return answer(version, err)
}

// Delete implements [membertable.Table].
func (t memberTable) Delete(ctx context.Context, expect membertable.Version, ids []membertable.ID) (version membertable.Version, err error) {
	if err := membertable.CheckIDs(ids); err != nil {
		return 0, membertable.Fail(membertable.OpDelete, t.cluster, err)
	}
	ids = slices.Clone(ids)
	err = t.do(ctx, membertable.OpDelete, func(m *members, met Fault) error {
		if m.version != expect {
			return store.ErrConflict
		}
		m.own()
		m.rows = slices.DeleteFunc(m.rows, func(r membertable.Row) bool { return slices.Contains(ids, r.ID) })
		m.version++
		m.deleted = m.version
		if met.Loss != LoseTouch {
			version = m.version
		}
		return nil
	})
	return answer(version, err)
}

// Alive implements [membertable.Table].
func (t memberTable) Alive(ctx context.Context, id membertable.ID, at time.Time) error {
	if err := membertable.CheckName(id.Name); err != nil {
		return membertable.Fail(membertable.OpAlive, t.cluster, err)
	}
	return t.do(ctx, membertable.OpAlive, func(m *members, _ Fault) error {
		if i, found := m.find(id); found {
			m.own()
			m.rows[i].Alive = membertable.Time(at)
		}
		return nil
	})
}

func (m *members) find(id membertable.ID) (int, bool) {
	return slices.BinarySearchFunc(m.rows, id, func(r membertable.Row, id membertable.ID) int { return r.ID.Compare(id) })
}

func (m *members) own() {
	if m.shared {
		m.rows, m.shared = slices.Clone(m.rows), false
	}
}

func (m *members) write(rows []membertable.Row) {
	m.own()
	m.version += membertable.Version(len(rows))
	for _, row := range rows {
		row.Version = m.version
		i, found := m.find(row.ID)
		if found {
			row.Alive = m.rows[i].Alive
			m.rows[i] = row
			continue
		}
		m.rows = slices.Insert(m.rows, i, row)
	}
}

// read returns the table, or the rows after version since. Readers of one state share its rows.
func (m *members) read(since membertable.Version, stale bool) membertable.Snapshot {
	if stale {
		return m.stale
	}
	if since == 0 || since > m.version || since < m.deleted {
		m.shared = true
		m.stale = membertable.Snapshot{Version: m.version, Rows: m.rows}
		return m.stale
	}
	changed := membertable.Snapshot{Version: m.version, Since: since}
	if since == m.version {
		return changed
	}
	for _, row := range m.rows {
		if row.Version > since {
			changed.Rows = append(changed.Rows, row)
		}
	}
	return changed
}
