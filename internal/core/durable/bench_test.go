package durable

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

// BenchmarkCommit measures the way of a command through a shard. One append carries six commits,
// and the store answers immediately.
func BenchmarkCommit(b *testing.B) {
	for _, entities := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("%d-entities", entities), func(b *testing.B) {
			now := time.Unix(1, 0)
			s := New(now, Config{Epoch: 1, Node: "n", Incarnation: 1, Limits: Limits{TailBytes: 64 << 20, TailCommits: 100_000}}) // few checkpoints
			position, claim := store.Position(0), Request{}
			answer := func() {
				for _, r := range s.Take().Requests {
					a := Response{ID: r.ID}
					switch r.Op {
					case OpAppend:
						position++
						a.Position = position
						if r.Commits == 0 {
							claim = r
						}
					case OpRead:
						a.Appends = []store.Append{{Position: position, Data: claim.Data}}
					case OpSetHead, OpPut:
						a.Revision = store.Revision(position) + 1
					default:
					}
					s.Done(now, a)
				}
			}
			for s.State() != Open {
				answer()
			}
			active := make([]Loaded, entities)
			for i := range active {
				active[i], _ = s.Load(now, fmt.Sprintf("entity-%d", i))
			}
			state, reply := make([]byte, 20), make([]byte, 8)
			b.ReportAllocs()
			for n := uint64(1); b.Loop(); n++ {
				e := active[n*7919%uint64(entities)]
				c := Command{Source: Source{Incarnation: 2}, Number: n, Floor: n - min(n-1, 20), Hash: n}
				if v := s.Admit(now, &c).Verdict; v != Run {
					b.Fatalf("verdict %d", v)
				}
				if _, err := s.Commit(now, &Turn{Entity: e.Entity, State: state, Command: &c, Answer: reply}); err != nil {
					b.Fatal(err)
				}
				if n%6 == 0 {
					answer()
				}
			}
		})
	}
}
