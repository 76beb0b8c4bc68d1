package durablehost

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
)

// BenchmarkClaim measures the claim of a shard with 15,600 entities, once without reminders and
// once with one reminder for each entity.
func BenchmarkClaim(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("reminders=%v", with), func(b *testing.B) { benchmarkClaim(b, with) })
	}
}

func benchmarkClaim(b *testing.B, with bool) {
	const entities = 15_600
	s := jetStream(b)
	p := &process{}
	p.ctx = b.Context()
	epoch := uint64(anEpoch)
	home := func() (*Shard, *Tenure) {
		sh := New(Config{
			Shard: account, Store: s, Node: "n", Incarnation: epoch, Patience: 20 * time.Second, Host: p,
			Limits: durable.Limits{TailCommits: 100_000, TailBytes: 64 << 20},
		})
		epoch++
		sh.Open(epoch)
		tenure, err := sh.Tenure(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return sh, tenure
	}
	sh, tenure := home()
	due := time.Now().Add(24 * time.Hour).UnixMilli()
	for i := range entities {
		turn := durable.Turn{Entity: fmt.Sprintf("%08x-%04d", uint32(i)*2654435761, i%10_000), State: make([]byte, 100)}
		if with {
			turn.Reminders = &wire.DurableReminders{All: []*wire.DurableReminder{{Name: "Close", Method: "Close", Due: due + int64(i), Set: 1, Kind: 1}}}
		}
		if _, err := tenure.Load(b.Context(), turn.Entity); err != nil {
			b.Fatal(err)
		}
		ticket, err := tenure.Commit(&turn)
		if err == nil && (i%512 == 0 || i == entities-1) {
			err = tenure.Wait(b.Context(), ticket)
		}
		if err != nil {
			b.Fatal(err)
		}
		tenure.Passivated(turn.Entity)
	}
	if err := sh.Leave(b.Context(), epoch); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		home()
	}
}
