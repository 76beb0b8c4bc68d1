package node

import (
	"fmt"
	"os"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
)

// hostLeader makes n host the volatile singleton, or the durable one. Its trace goes to a new file:
// each line has the nanoseconds of the wall clock at a moment at which it lived. Written lines survive
// SIGKILL.
func hostLeader(n *shard.Node, path string, durable bool) (closed func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	trace := func(at time.Time) error {
		_, err := fmt.Fprintln(f, at.UnixNano())
		return err
	}
	if durable {
		err = workload.HostTreasurer(n, func() *workload.Treasurer { return &workload.Treasurer{Node: n.Name(), Trace: trace} })
		return f.Close, err
	}
	err = workload.HostLeader(n, func() *workload.Leader { return &workload.Leader{Node: n.Name(), Trace: trace} })
	return f.Close, err
}
