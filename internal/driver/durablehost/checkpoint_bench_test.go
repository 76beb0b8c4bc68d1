package durablehost

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// BenchmarkCheckpoint measures a checkpoint of 4,000 new entities in a shard that has 11,600 older
// ones.
func BenchmarkCheckpoint(b *testing.B) {
	s := jetStream(b)
	p := &process{}
	p.ctx = b.Context()
	epoch, n := uint64(anEpoch), 0
	home := func() *Shard {
		sh := New(Config{
			Shard: account, Store: s, Node: "n", Incarnation: epoch, Patience: 20 * time.Second, Host: p,
			Limits: durable.Limits{TailCommits: 100_000, TailBytes: 64 << 20},
		})
		epoch++
		sh.Open(epoch)
		return sh
	}
	add := func(sh *Shard, count int) {
		tenure, err := sh.Tenure(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for i := range count {
			n++
			turn := durable.Turn{Entity: fmt.Sprintf("%08x-%04d", uint32(n)*2654435761, n%10_000), State: make([]byte, 100)}
			if _, err := tenure.Load(b.Context(), turn.Entity); err != nil {
				b.Fatal(err)
			}
			ticket, err := tenure.Commit(&turn)
			if err == nil && (i%512 == 0 || i == count-1) {
				err = tenure.Wait(b.Context(), ticket)
			}
			if err != nil {
				b.Fatal(err)
			}
			tenure.Passivated(turn.Entity)
		}
	}
	sh := home()
	add(sh, 11_600)
	for b.Loop() {
		b.StopTimer()
		if err := sh.Leave(b.Context(), epoch); err != nil {
			b.Fatal(err)
		}
		sh = home()
		add(sh, 4000)
		b.StartTimer()
		if err := sh.Leave(b.Context(), epoch); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		sh = home()
		b.StartTimer()
	}
}
