package chaos

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

var stallSeeds = flag.Int("stallseeds", 300, "how many runs TestKilledBesideBrokerStalls makes")

// TestKilledBesideBrokerStalls: a process is killed while the only server stands still or restarts.
// It is downed soon after the server answers again and a paused observer goes on. No other process
// is downed.
func TestKilledBesideBrokerStalls(t *testing.T) {
	for seed := range uint64(*stallSeeds) {
		if err := stalled(seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// stalled makes one run of several kills, each while the server stands still or restarts.
func stalled(seed uint64) error {
	r := newRandom(seed)
	w := sim.New(sim.Config{
		Seed: r.Uint64(), Latency: milliseconds(r, 0.1, 3), Jitter: milliseconds(r, 0, pick(r, 1.0, 20)),
		Redial: milliseconds(r, 50, 200), HostTimeout: 4 * time.Minute,
	})
	ended := make(map[*sim.Node]membership.Event)
	w.OnEnd = func(n *sim.Node, last membership.Event) { ended[n] = last }
	start := func(i int) {
		n, err := w.Add(membership.Config{Self: transport.Address{Name: name(i), Incarnation: r.Uint64() >> 2}}, sim.Place{Drift: r.IntN(2001) - 1000})
		if err != nil {
			panic(err)
		}
		w.Start(n)
	}
	members := 3 + r.IntN(5)
	for i := range members {
		start(i)
	}
	whole := func() bool {
		all := w.Running()
		return !slices.ContainsFunc(all, func(n *sim.Node) bool { return !n.Converged() || n.View().Count(membership.Up) != len(all) })
	}
	server := w.Servers()[0]
	for round := range 3 {
		if !w.RunUntil(time.Minute, 50*time.Millisecond, whole) {
			return fmt.Errorf("round %d: the %d processes have not agreed on one view", round, len(w.Running()))
		}
		w.Run(milliseconds(r, 0, 2000))
		bound := 2 * time.Second
		var back time.Duration
		if r.IntN(3) > 0 {
			for range 1 + r.IntN(3) { // the server may stall again at once
				d := milliseconds(r, 200, 6000)
				w.Stall(server, d)
				back = max(back, w.Now()+d)
				w.Run(milliseconds(r, 0, float64(d/time.Millisecond)+300))
			}
		} else {
			w.StopServer(server)
			d := milliseconds(r, 50, 5000)
			back = w.Now() + d
			w.After(d, func() { w.StartServer(server) })
			bound += detector.ReturnGrace
			w.Run(milliseconds(r, 0, float64(d/time.Millisecond)+300))
		}
		running := w.Running()
		i := r.IntN(len(running))
		victim, observer := running[i], running[(i+1)%len(running)]
		if r.IntN(2) == 0 { // its loop pauses around the kill
			d := milliseconds(r, 100, 2000)
			w.Freeze(observer)
			w.After(d, func() { w.Thaw(observer) })
			back = max(back, w.Now()+d)
			w.Run(milliseconds(r, 0, float64(d/time.Millisecond)+300))
		}
		w.Kill(victim)
		back = max(back, w.Now())
		downed := func() bool {
			return !slices.ContainsFunc(w.Running(), func(n *sim.Node) bool {
				m, ok := n.View().Member(victim.Address)
				return ok && m.Status != membership.Down
			})
		}
		if !w.RunUntil(back+bound-w.Now(), 10*time.Millisecond, downed) {
			w.RunUntil(time.Minute, 10*time.Millisecond, downed)
			return fmt.Errorf("round %d: %v is down %v after the server answers again, want at most %v", round, victim.Address, w.Now()-back, bound)
		}
		if len(w.Running()) != members-1 {
			return fmt.Errorf("round %d: %d of %d run, ended: %v", round, len(w.Running()), members-1, ended)
		}
		start(members + round)
		if err := w.Err(); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}
