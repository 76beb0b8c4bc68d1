package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/e2e/wallclock"
	shard "github.com/shardgen/shardgen/runtime"
)

// voice writes the node's events as lines, and answers commands on standard input. It is safe for
// concurrent use.
type voice struct {
	node  string
	about atomic.Pointer[shard.Node] // nil before it has been made
	mu    sync.Mutex
	to    *json.Encoder
}

func (v *voice) say(e process.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e.Node, e.Pid = v.node, os.Getpid()
	_ = v.to.Encode(e) // it fails if the reader has ended
}

func (v *voice) watch(n *shard.Node) {
	for e := range n.Events(context.Background()) {
		if e.Member.Name != "" {
			v.say(process.Event{Event: Saw, Kind: e.Kind.String(), Member: e.Member.Name, Time: e.Time})
		}
		// With a table, a member may come or go although all members agree.
		v.say(process.Event{Event: Agreed, Time: e.Time, View: agreed(n.Cluster())})
	}
}

// agreed returns v as text if all members agree on it, and "" otherwise.
func agreed(v shard.ClusterView) string {
	if !v.Converged {
		return ""
	}
	names := []string{"founded by " + v.Founder.String()}
	for _, m := range v.Members {
		names = append(names, m.String())
	}
	return strings.Join(names, " ")
}

// ShiftClock returns a command, as a line for a node's standard input. It sets the node's wall
// clock wrong by d. The program must be built by wallclock.Build. The node answers with Shifted,
// which has its new time, or the failure as Error.
func ShiftClock(d time.Duration) string { return "clock " + d.String() + "\n" }

// CountFrames returns a command, as a line for a node's standard input. It asks how many data
// frames the node has sent. The node answers with Counted, repeating the number question.
func CountFrames(question int) string { return fmt.Sprintf("frames %d\n", question) }

func (v *voice) obey(stdin io.Reader) {
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		e, err := v.answer(lines.Text())
		if err != nil {
			e.Error = err.Error()
		}
		v.say(e)
	}
}

// answer carries out a command and returns the event that answers it.
func (v *voice) answer(command string) (e process.Event, err error) {
	verb, arg, _ := strings.Cut(command, " ")
	switch verb {
	case "clock":
		d, err := time.ParseDuration(arg)
		if err == nil {
			err = wallclock.Shift(d)
		}
		return process.Event{Event: Shifted, Time: time.Now()}, err
	case "frames":
		e.Event = Counted
		if e.Question, err = strconv.Atoi(arg); err != nil {
			return e, err
		}
		if n := v.about.Load(); n != nil {
			counters := n.Counters()
			e.Frames, e.Direct = counters["frames sent"], counters["frames sent directly"]
		}
		return e, nil
	}
	return process.Event{Event: Refused}, fmt.Errorf("not a command: %q", command)
}
