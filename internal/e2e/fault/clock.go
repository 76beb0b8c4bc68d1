package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/e2e/wallclock"
)

// clock sets the wall clocks of two running nodes wrong. One of the two nodes runs the coordinator.
// No node may be removed, and no call may fail.
var clock = Fault{
	Name:    "clock",
	About:   "for 1m the oldest node's wall clock is 1h ahead and the youngest's 1h behind, for 1m the other way round, then both are right",
	Nodes:   5,
	Length:  time.Minute,
	Needs:   wallclock.Supported,
	Program: buildWithClock,
	Spares:  true,
	Lengths: 2,
	Within:  2 * time.Minute,
	Limits:  Limits{Pause: time.Second, Recovery: unjudged},
	Inject: func(ctx context.Context, r *Run) error {
		oldest, youngest := r.Nodes[0], r.Nodes[len(r.Nodes)-1]
		for _, wrong := range []time.Duration{wrongBy, -wrongBy, 0} {
			if err := errors.Join(shift(ctx, oldest, wrong), shift(ctx, youngest, -wrong)); err != nil {
				return err
			}
			if wrong == 0 {
				break
			}
			if err := r.Sleep(ctx, r.Length); err != nil {
				return err
			}
		}
		r.Note("changes of the view: %d", r.changes(r.began))
		return nil
	},
}

const wrongBy = time.Hour

func buildWithClock(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "node-with-a-clock")
	program := "github.com/shardgen/shardgen/internal/e2e/cmd/fault"
	if this, ok := debug.ReadBuildInfo(); ok && strings.HasSuffix(this.Path, "/fault") { // else a test
		program = this.Path
	}
	return path, wallclock.Build(ctx, program, path)
}

// shift sets a node's wall clock wrong by d, and checks it.
func shift(ctx context.Context, n *cluster.Node, d time.Duration) error {
	before := len(n.Said())
	if _, err := io.WriteString(n, node.ShiftClock(d)); err != nil {
		return fmt.Errorf("shift the clock of %s: %w", n.Name(), err)
	}
	var e process.Event
	err := until(ctx, n.Name()+" has another time", func() bool {
		said := n.Said()[before:]
		i := slices.IndexFunc(said, func(e process.Event) bool { return e.Event == node.Shifted })
		if i >= 0 {
			e = said[i]
		}
		return i >= 0
	})
	if err != nil {
		return err
	}
	if off := time.Until(e.Time) - d; e.Error != "" || off.Abs() > wrongBy/2 {
		return fmt.Errorf("shift the clock of %s by %v: its clock shows %v (%s)", n.Name(), d, e.Time, e.Error)
	}
	return nil
}
