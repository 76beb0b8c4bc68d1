package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/store/membertable/conformance"
	"github.com/shardgen/shardgen/store/memory"
)

func TestMembersConformance(t *testing.T) {
	conformance.Run(t, conformance.Subject{
		Bubble: synctest.Test,
		Open: func(*testing.T) conformance.Harness {
			server := memory.New()
			faulty := func(f memory.Fault) func(*testing.T, string) (membertable.Table, func(), func()) {
				return func(_ *testing.T, cluster string) (membertable.Table, func(), func()) {
					c := server.Client()
					return c.Members(cluster), func() { c.Fault(func(memory.Op) memory.Fault { return f }) }, func() { c.Fault(nil); server.Deliver() }
				}
			}
			return conformance.Harness{
				Client:  func(_ *testing.T, cluster string) membertable.Table { return server.Client().Members(cluster) },
				Wait:    time.Sleep,
				Hang:    time.Minute,
				Held:    faulty(memory.Fault{Loss: memory.LoseTouch, Late: time.Hour}),
				Deaf:    faulty(memory.Fault{Loss: memory.LoseAnswer}),
				Restart: func(*testing.T) { server.Stop(); server.Start(0) },
			}
		},
	})
}

func TestMembersFaults(t *testing.T) {
	for _, test := range []struct {
		name    string
		fault   memory.Fault
		want    error
		applied bool
	}{
		{"none", memory.Fault{}, nil, true},
		{"slow", memory.Fault{Delay: 20 * time.Second, Answer: 20 * time.Second}, nil, true},
		{"unavailable", memory.Fault{Loss: memory.LoseConnection}, store.ErrUnavailable, false},
		{"request lost", memory.Fault{Loss: memory.LoseRequest}, store.ErrUncertain, false},
		{"half done", memory.Fault{Loss: memory.LoseHalf}, store.ErrUncertain, false},
		{"answer lost", memory.Fault{Loss: memory.LoseAnswer}, store.ErrUncertain, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memory.New()
				c := server.Client()
				c.Fault(func(op memory.Op) memory.Fault {
					if op.Name != membertable.OpWrite || op.Key != "test" || !op.Write {
						t.Errorf("the fault meets %+v, want the write", op)
					}
					return test.fault
				})
				_, err := c.Members("test").Write(t.Context(), 0, membertable.Row{ID: membertable.ID{Name: "a"}})
				if !errors.Is(err, test.want) {
					t.Errorf("write: got %v, want %v", err, test.want)
				}
				s, err := server.Client().Members("test").Read(t.Context(), 0)
				if applied := s.Version == 1 && len(s.Rows) == 1; applied != test.applied || err != nil {
					t.Errorf("applied is %v (%v), want %v", applied, err, test.applied)
				}
			})
		})
	}
}

// TestMembersStale: a read from a follower returns a former state of the table.
func TestMembersStale(t *testing.T) {
	server := memory.New()
	c := server.Client()
	table, stale := server.Client().Members("test"), c.Members("test")
	c.Fault(func(memory.Op) memory.Fault { return memory.Fault{Follower: true} })
	for v := range membertable.Version(4) {
		if _, err := table.Write(t.Context(), v, membertable.Row{ID: membertable.ID{Name: "a", Incarnation: uint64(v)}}); err != nil {
			t.Fatal(err)
		}
		if v == 1 {
			if _, err := table.Read(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s, err := stale.Read(t.Context(), 0); err != nil || s.Version != 2 || len(s.Rows) != 2 {
		t.Errorf("a stale read has %d rows at version %d (%v), want 2 at 2", len(s.Rows), s.Version, err)
	}
}
