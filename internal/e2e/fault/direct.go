package fault

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/proxy"
)

// directLimits are for faults of direct lanes: calls must go on over the broker at once.
var directLimits = Limits{Pause: 2 * time.Second, Recovery: unjudged}

// directCut resets all direct lanes under load, some in the middle of a frame.
var directCut = Fault{
	Name:   "direct-cut",
	About:  "all direct lanes are reset, some in the middle of a frame, when they are back, 5 times",
	Nodes:  3,
	Rounds: 5,
	Spares: true,
	Direct: true,
	Within: 3 * time.Minute,
	Limits: directLimits,
	Inject: func(ctx context.Context, r *Run) error {
		for i := range r.options.Rounds {
			if err := awaitDirect(ctx, r); err != nil {
				return err
			}
			ends := 0
			for _, p := range r.Cluster.Proxies() {
				if i%2 == 1 {
					p.ResetAfter(100_000 + 7)
					if err := r.Sleep(ctx, 300*time.Millisecond); err != nil {
						return err
					}
					p.ResetAfter(-1)
				}
				ends += p.Cut(true)
			}
			r.Note("cut %d: %d ends of connections", i+1, ends)
		}
		return awaitDirect(ctx, r)
	},
}

var directBlackHole = Fault{
	Name:    "direct-blackhole",
	About:   "all direct lanes bring nothing for 10s, without an error at either end, twice",
	Nodes:   3,
	Rounds:  2,
	Length:  10 * time.Second,
	Spares:  true,
	Direct:  true,
	Lengths: 1,
	Within:  3 * time.Minute,
	Limits:  directLimits,
	Inject: func(ctx context.Context, r *Run) error {
		for range r.options.Rounds {
			if err := awaitDirect(ctx, r); err != nil {
				return err
			}
			for _, p := range r.Cluster.Proxies() {
				p.Hold(true)
			}
			err := r.Sleep(ctx, r.Length)
			for _, p := range r.Cluster.Proxies() {
				p.Hold(false)
			}
			if err != nil {
				return err
			}
		}
		return awaitDirect(ctx, r)
	},
}

var directFlap = Fault{
	Name:   "direct-flap",
	About:  "for 20s each direct lane is closed 50ms after it carries anything",
	Nodes:  3,
	Length: 20 * time.Second,
	Spares: true,
	Direct: true,
	Within: 3 * time.Minute,
	Limits: directLimits,
	Inject: func(ctx context.Context, r *Run) error {
		if err := awaitDirect(ctx, r); err != nil {
			return err
		}
		ends := 0
		for end := time.Now().Add(r.Length); time.Now().Before(end); {
			if err := r.Sleep(ctx, 50*time.Millisecond); err != nil {
				return err
			}
			for i, p := range r.Cluster.Proxies() {
				ends += p.Cut(i%2 == 0)
			}
		}
		r.Note("%d ends of connections were closed", ends)
		return awaitDirect(ctx, r)
	},
}

func awaitDirect(ctx context.Context, r *Run) error {
	for _, p := range r.Cluster.Proxies() {
		if err := awaitBytes(ctx, r, p); err != nil {
			return err
		}
	}
	return nil
}

func awaitBytes(ctx context.Context, r *Run, p *proxy.Proxy) error {
	for before := p.Bytes(); p.Bytes() < before+10_000; {
		if err := r.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
