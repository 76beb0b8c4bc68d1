package tablestore

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport"
)

func row(name string, age uint32) rows.Row {
	at := time.Date(2026, 11, 27, 20, 15, 30, 123456000, time.UTC)
	return rows.Row{
		Member: gossip.Member{
			Address: transport.Address{Name: name, Incarnation: 1<<63 + uint64(age)}, Status: gossip.Up, UpNumber: age, Roles: []string{"worker"},
			ExitReady: true, Forced: true, Judged: true, Quarantined: true, Meta: []gossip.KeyValue{{Key: "kind/Account", Value: "shards=8"}},
		},
		Compat: []gossip.KeyValue{{Key: "membership", Value: "table"}}, Founder: transport.Address{Name: "a", Incarnation: 1<<64 - 1}, Server: "S",
		Suspicions: []rows.Suspicion{{By: transport.Address{Name: "b", Incarnation: 2}, At: at}}, Started: at, Alive: at, Ended: at.Add(time.Minute), Touched: 6,
	}
}

// TestRow: a row comes back from the table with each field.
func TestRow(t *testing.T) {
	want := row("a", 7)
	var check func(v reflect.Value, path string)
	check = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Anonymous {
				check(v.Field(i), path)
			} else if v.Field(i).IsZero() && f.Name != "Fenced" {
				t.Errorf("the test's row has no %s%s", path, f.Name)
			}
		}
	}
	check(reflect.ValueOf(want), "")
	encoded, err := encode(&want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode(encoded); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	for s, want := range map[gossip.Status]membertable.Status{
		gossip.Joining: membertable.Joining, gossip.Up: membertable.Active, gossip.Leaving: membertable.Leaving, gossip.Exiting: membertable.Leaving,
		gossip.Down: membertable.Dead, gossip.Removed: membertable.Dead,
	} {
		if got := status(&rows.Row{Member: gossip.Member{Status: s}}); got != want {
			t.Errorf("%v is %s for people, want %s", s, got, want)
		}
	}
}

// TestReads: two members read, write and delete at random, and both have the table as it is.
func TestReads(t *testing.T) {
	server := memory.New()
	random := rand.New(rand.NewPCG(1, 2))
	members := []*Store{New(server.Client().Members("test")), New(server.Client().Members("test"))}
	versions := make(map[uint64]*rows.Table)
	for i := range 500 {
		m := members[random.IntN(2)]
		got := m.Read(t.Context(), core.TableRead{Number: uint64(i), Within: time.Second})
		if got.Table == nil || got.Number != uint64(i) {
			t.Fatalf("read: %+v", got)
		}
		fresh := New(server.Client().Members("test")).Read(t.Context(), core.TableRead{Within: time.Second}).Table
		for j := range fresh.Rows { // an I-am-alive may come late
			fresh.Rows[j].Alive = got.Table.Rows[j].Alive
		}
		if !reflect.DeepEqual(got.Table.Rows, fresh.Rows) || got.Table.Version != fresh.Version {
			t.Fatalf("read %d: got %v, want %v", i, got.Table, fresh)
		}
		if before := versions[fresh.Version]; before != nil && before.String() != fresh.String() {
			t.Fatalf("version %d is %v and %v", fresh.Version, before, fresh)
		}
		versions[fresh.Version] = fresh
		name := string(rune('a' + random.IntN(6)))
		w := core.TableWrite{Number: 7, Rows: []rows.Row{row(name, 1)}, Version: fresh.Version, Within: time.Second}
		w.Rows[0].Server = time.Duration(i).String()
		switch random.IntN(4) {
		case 0:
			w.Delete = []transport.Address{w.Rows[0].Address}
		case 1:
			w.Version += 1 // conflict
		case 2:
			if a := m.Alive(t.Context(), w.Rows[0].Address, core.TableAlive{Number: 9, At: time.Now(), Within: time.Second}); !a.Done || a.Number != 9 {
				t.Fatalf("alive: %+v", a)
			}
			continue
		}
		done := m.Write(t.Context(), w)
		if conflict := w.Version != fresh.Version; done.Conflict != conflict || done.Done == conflict || done.Number != 7 || done.Done && done.Version <= fresh.Version {
			t.Fatalf("write at version %d of %d: %+v", w.Version, fresh.Version, done)
		}
	}
}

// TestAlive: a member sees the I-am-alive of a row that does not change, after wholeEvery.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.New()
		a, b := New(server.Client().Members("test")), New(server.Client().Members("test"))
		r := row("a", 1)
		a.Write(t.Context(), core.TableWrite{Rows: []rows.Row{r}, Within: time.Second})
		read := func() time.Time {
			return b.Read(t.Context(), core.TableRead{Within: time.Second}).Table.Row(r.Address).Alive
		}
		if got := read(); !got.Equal(r.Started) { // else a joiner would take a young member for stale
			t.Errorf("before any: %v, want the start at %v", got, r.Started)
		}
		at := r.Started.Add(time.Minute)
		a.Alive(t.Context(), r.Address, core.TableAlive{At: at, Within: time.Second})
		time.Sleep(wholeEvery)
		if got := read(); !got.Equal(at) {
			t.Errorf("got %v, want %v", got, at)
		}
	})
}
