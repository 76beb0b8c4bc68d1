package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/e2e/witness"
)

// A Node is one process of the cluster.
type Node struct {
	*process.Process
	witness string
	trace   string // "" without a singleton
	log     string
}

// Log is the file that the node logs to.
func (n *Node) Log() string { return n.log }

// frames asks the node for the data frames that it has sent. No two questions have one number.
func (n *Node) frames(ctx context.Context, question int) (Frames, error) {
	if _, err := io.WriteString(n, node.CountFrames(question)); err != nil {
		return Frames{}, fmt.Errorf("count the frames of %s: %w", n.Name(), err)
	}
	e, err := n.AwaitThat(ctx, "to count its frames", func(e process.Event) bool {
		return e.Event == node.Counted && e.Question == question
	})
	return Frames{e.Frames, e.Direct}, err
}

// Witnessed is every call that ran at the node so far.
func (n *Node) Witnessed() ([]witness.Record, error) { return witness.Read(n.witness) }

// Lived returns from when to when a singleton lived at the node; the zero times if
// it never did.
func (n *Node) Lived() (from, to time.Time, err error) {
	b, err := os.ReadFile(n.trace)
	if err != nil {
		return from, to, err
	}
	for line := range strings.Lines(string(b)) {
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			continue // killed while it wrote
		}
		to = time.Unix(0, ns)
		if from.IsZero() {
			from = to
		}
	}
	return from, to, nil
}
