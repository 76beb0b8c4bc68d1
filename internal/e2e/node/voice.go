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

// voice says events, one line each, and answers the commands on standard input. It is safe for
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
	_ = v.to.Encode(e) // fails when nobody listens any more
}

// watch reports the node's view of others, until the node stops.
func (v *voice) watch(n *shard.Node) {
	for e := range n.Events(context.Background()) {
		switch {
		case e.Kind == shard.EventConverged || e.Kind == shard.EventDiverged:
			v.say(process.Event{Event: Agreed, Time: e.Time, View: agreed(n.Cluster())})
		case e.Member.Name != "":
			v.say(process.Event{Event: Saw, Kind: e.Kind.String(), Member: e.Member.Name, Time: e.Time})
		}
	}
}

// agreed describes a view on which all members agree; "" if they do not.
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

// ShiftClock is the line on standard input that sets the wall clock of a node
// wrong by a duration, if its program is one of wallclock.Build. It says Shifted
// then, with the time that it has, or the failure as its Error.
func ShiftClock(d time.Duration) string { return "clock " + d.String() + "\n" }

// CountFrames is the line on standard input that asks a node for the data frames that it has
// sent. It says Counted then, with the number of the question.
func CountFrames(question int) string { return fmt.Sprintf("frames %d\n", question) }

// obey follows the commands on standard input, until that closes.
func (v *voice) obey(stdin io.Reader) {
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		e, err := v.answer(lines.Text())
		if err != nil {
			e.Error = err.Error()
		}
		v.say(e)
	}
}

// answer carries out a command.
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
