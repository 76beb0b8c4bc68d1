package fault

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/netns"
)

// loss is the fault in which packets are lost by chance, as with a bad cable or a full switch.
// TCP sends them again, so that messages are not lost but late, and ever later: at 80% of the
// packets of both directions a connection carries next to nothing. That node may be removed,
// once; with 30% between all hosts nobody may be.
var loss = Fault{
	Name:         "loss",
	About:        "for 2m a node loses 80% of its packets, both ways; then, for 2m, every host loses 30% (the paper's time is -length 10m)",
	Victim:       -1,
	Nodes:        5,
	Servers:      3,
	Length:       2 * time.Minute,
	Rate:         200, // more does not fit through
	Needs:        netns.Supported,
	Separate:     true,
	SparesOthers: true,
	Lengths:      2,
	Within:       2 * time.Minute,
	Limits:       cutLimits,
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.lossAtOne(ctx); err != nil {
			return err
		}
		return r.lossEverywhere(ctx)
	},
}

const (
	lossAtVictim   = 80 // percent
	lossAtAll      = 30
	changesAtLoss  = 1 // of the view, at most
	lossViewWithin = 30 * time.Second
)

func (r *Run) lossAtOne(ctx context.Context) error {
	k := keepUp(r.Cluster, r.Victim)
	defer func() { _ = k.end() }()
	if err := r.spread(ctx); err != nil {
		return err
	}
	own, err := r.hosts(r.Victim.Name())
	if err != nil {
		return err
	}
	others := r.everywhere(own...)
	r.Begin()
	v := r.Strike(r.Victim)[0]
	err = r.Cluster.Network().Drop(
		netns.Rule{From: own, To: others, Percent: lossAtVictim}, netns.Rule{From: others, To: own, Percent: lossAtVictim})
	if err != nil {
		return err
	}
	if err := r.Sleep(ctx, r.Length); err != nil {
		return err
	}
	changes := r.changes(v.since)
	r.Note("%d%% at %s: %d changes of the view", lossAtVictim, v.node.Name(), changes)
	if changes > changesAtLoss {
		r.Miss("%d changes of the view, want at most %d", changes, changesAtLoss)
	}
	if at := r.removal(v.node.Name(), v.since); !at.IsZero() {
		r.Note("%s was given up %v after the fault", v.node.Name(), round(at.Sub(v.since)))
		if err := r.judgeHomes(v); err != nil {
			return err
		}
	}
	if err := r.heal(); err != nil {
		return err
	}
	r.Begin()
	if err := r.oneView(ctx, r.began, lossViewWithin); err != nil {
		return err
	}
	r.Note("%d processes ended and were started again", k.total())
	return r.spread(ctx)
}

func (r *Run) lossEverywhere(ctx context.Context) error {
	all := r.everywhere()
	begin, ended := time.Now(), r.ended()
	if err := r.Cluster.Network().Drop(netns.Rule{From: all, To: all, Percent: lossAtAll}); err != nil {
		return err
	}
	made, failed := r.Load.Made(), r.Load.Failed()
	if err := r.Sleep(ctx, r.Length); err != nil {
		return err
	}
	changes := r.changes(begin)
	r.Note("%d%% everywhere: %d changes of the view, %d processes ended; %d calls, %d of them failed",
		lossAtAll, changes, r.ended()-ended, r.Load.Made()-made, r.Load.Failed()-failed)
	if changes > 0 || r.ended() > ended {
		r.Miss("%d changes of the view and %d processes ended for %d%% everywhere, want none", changes, r.ended()-ended, lossAtAll)
	}
	if err := r.heal(); err != nil {
		return err
	}
	r.Begin()
	return r.oneView(ctx, r.began, lossViewWithin)
}

// ended counts the nodes that have ended.
func (r *Run) ended() (n int) {
	for _, node := range r.Cluster.Nodes() {
		if node.Ended() {
			n++
		}
	}
	return n
}
