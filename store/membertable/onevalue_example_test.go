package membertable_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/store/membertable/conformance"
	"github.com/shardgen/shardgen/store/memory"
)

// A oneValue is a table in one value of any store that has compare-and-set.
type oneValue struct {
	kv      store.Store // Get, and Put with the revision of the value that it replaces
	cluster string
}

// A content is the value.
type content struct {
	Version membertable.Version
	Rows    []storedRow // sorted
}

type storedRow struct {
	Row     json.RawMessage // of membertable.Encode
	Version membertable.Version
	Alive   time.Time
	id      membertable.ID
}

func (o oneValue) load(ctx context.Context) (c content, revision store.Revision, err error) {
	if err := membertable.CheckName(o.cluster); err != nil {
		return c, 0, err
	}
	r, err := o.kv.Get(ctx, "members/"+o.cluster)
	if errors.Is(err, store.ErrNotFound) {
		return c, store.None, nil
	}
	if err == nil {
		err = json.Unmarshal(r.Value, &c)
	}
	for i := range c.Rows {
		row, err := membertable.Decode(c.Rows[i].Row)
		if err != nil {
			return c, 0, err
		}
		c.Rows[i].id = row.ID
	}
	return c, r.Revision, err
}

// change replaces the value by what f makes of it. If another process has replaced it meanwhile,
// f decides again.
func (o oneValue) change(ctx context.Context, f func(*content) error) (membertable.Version, error) {
	for {
		c, revision, err := o.load(ctx)
		if err == nil {
			err = f(&c)
		}
		if err != nil {
			return 0, err
		}
		value, err := json.Marshal(c)
		if err != nil {
			return 0, err
		}
		_, err = o.kv.Put(ctx, "members/"+o.cluster, value, revision)
		if err == nil {
			return c.Version, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return 0, err
		}
	}
}

// changeAt is change that raises the version by a number, if it is expect.
func (o oneValue) changeAt(ctx context.Context, expect membertable.Version, by int, f func(*content)) (membertable.Version, error) {
	return o.change(ctx, func(c *content) error {
		if c.Version != expect {
			return store.ErrConflict
		}
		c.Version += membertable.Version(by)
		f(c)
		return nil
	})
}

func (c *content) find(id membertable.ID) (int, bool) {
	return slices.BinarySearchFunc(c.Rows, id, func(r storedRow, id membertable.ID) int { return r.id.Compare(id) })
}

// Read returns all rows: a table need not know what changed.
func (o oneValue) Read(ctx context.Context, _ membertable.Version) (membertable.Snapshot, error) {
	c, _, err := o.load(ctx)
	if err != nil {
		return membertable.Snapshot{}, membertable.Fail(membertable.OpRead, o.cluster, err)
	}
	s := membertable.Snapshot{Version: c.Version}
	for _, kept := range c.Rows {
		row, err := membertable.Decode(kept.Row)
		if err != nil {
			return membertable.Snapshot{}, membertable.Fail(membertable.OpRead, o.cluster, err)
		}
		row.Version, row.Alive = kept.Version, kept.Alive
		s.Rows = append(s.Rows, row)
	}
	return s, nil
}

func (o oneValue) Write(ctx context.Context, expect membertable.Version, rows ...membertable.Row) (membertable.Version, error) {
	all, err := membertable.EncodeAll(rows)
	var version membertable.Version
	if err == nil {
		version, err = o.changeAt(ctx, expect, len(rows), func(c *content) {
			for k, row := range rows {
				written := storedRow{Row: all[k], Version: c.Version, id: row.ID}
				i, found := c.find(row.ID)
				if found {
					written.Alive = c.Rows[i].Alive
					c.Rows[i] = written
					continue
				}
				c.Rows = slices.Insert(c.Rows, i, written)
			}
		})
	}
	return version, membertable.Fail(membertable.OpWrite, o.cluster, err)
}

func (o oneValue) Delete(ctx context.Context, expect membertable.Version, ids []membertable.ID) (membertable.Version, error) {
	err := membertable.CheckIDs(ids)
	var version membertable.Version
	if err == nil {
		version, err = o.changeAt(ctx, expect, 1, func(c *content) {
			c.Rows = slices.DeleteFunc(c.Rows, func(r storedRow) bool { return slices.Contains(ids, r.id) })
		})
	}
	return version, membertable.Fail(membertable.OpDelete, o.cluster, err)
}

func (o oneValue) Alive(ctx context.Context, id membertable.ID, at time.Time) error {
	err := membertable.CheckName(id.Name)
	if err == nil {
		_, err = o.change(ctx, func(c *content) error {
			if i, found := c.find(id); found {
				c.Rows[i].Alive = membertable.Time(at)
			}
			return nil
		})
	}
	return membertable.Fail(membertable.OpAlive, o.cluster, err)
}

// TestOneValueConformance is the table of docs/guide/member-table.md.
func TestOneValueConformance(t *testing.T) {
	conformance.Run(t, conformance.Subject{
		Bubble: synctest.Test, // time is virtual, because this store is inside the test
		Open: func(*testing.T) conformance.Harness {
			server := memory.New()
			faulty := func(f memory.Fault) func(*testing.T, string) (membertable.Table, func(), func()) {
				return func(_ *testing.T, cluster string) (membertable.Table, func(), func()) {
					c := server.Client()
					writes := func(op memory.Op) memory.Fault {
						if op.Write {
							return f
						}
						return memory.Fault{}
					}
					return oneValue{c, cluster}, func() { c.Fault(writes) }, func() { c.Fault(nil); server.Deliver() }
				}
			}
			return conformance.Harness{
				Client:  func(_ *testing.T, cluster string) membertable.Table { return oneValue{server.Client(), cluster} },
				Wait:    time.Sleep,
				Hang:    time.Minute,
				Rows:    200, // a value has at most 512 KiB
				Largest: 1,
				Held:    faulty(memory.Fault{Loss: memory.LoseTouch, Late: time.Hour}),
				Deaf:    faulty(memory.Fault{Loss: memory.LoseAnswer}),
			}
		},
	})
}
