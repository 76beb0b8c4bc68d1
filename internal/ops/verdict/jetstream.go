package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
)

// near reports whether used is near a limit. A limit of 0 or below means that there is none.
func near(used uint64, limit int64) bool {
	return limit > 0 && float64(used) >= nearlyFull*float64(limit)
}

func (j *judge) jetStream(s *JetStream) {
	for _, l := range s.Limits {
		if near(l.Used, l.Most) {
			j.add(operator.Fault, JetStreams, l.Text, l.Do, "%s", l.Text)
		}
	}
	j.fine(JetStreams, "JetStream answers, and the account is below its limits (%s on disk)", Size(s.Bytes))
	const leaderless = "see that more than half of its replicas' servers run, and that they have room: until it has a leader, calls of its entities wait"
	for _, name := range slices.Sorted(slices.Values(s.Missing)) {
		j.add(operator.Fault, Streams, name, leaderless, "%s has no leader, or it does not answer", name)
	}
	for _, name := range SortedKeys(s.Offline) {
		j.add(operator.Fault, Streams, name, "upgrade the servers that have its replicas", "%s is offline: %s", name, s.Offline[name])
	}
	var bytes uint64
	for _, t := range s.Streams {
		bytes += t.Bytes
		if t.Clustered && t.Leader == "" {
			j.add(operator.Fault, Streams, t.Name, leaderless, "%s has no leader", t.Name)
		} else {
			j.replicas(t)
		}
		if t.Replicas < s.Replicas {
			j.add(operator.Fault, Streams, t.Name+" replicas", fmt.Sprintf("nats stream edit %s --replicas %d (Config.Replicas applies only to streams created later)", t.Name, s.Replicas),
				"%s has %d replicas, and Config.Replicas of the members' store is %d", t.Name, t.Replicas, s.Replicas)
		}
		if near(t.Bytes, t.MaxBytes) {
			j.add(operator.Fault, Streams, t.Name+" bytes", fmt.Sprintf("nats stream edit %s --max-bytes -1: at the limit, its entities commit nothing", t.Name),
				"%s has %s of %s", t.Name, Size(t.Bytes), Size(uint64(t.MaxBytes)))
		}
		if near(t.Messages, t.MaxCount) {
			j.add(operator.Fault, Streams, t.Name+" messages", fmt.Sprintf("nats stream edit %s --max-msgs -1: at the limit, its entities commit nothing", t.Name),
				"%s has %d of %d messages", t.Name, t.Messages, t.MaxCount)
		}
	}
	if len(s.Streams)+len(s.Missing)+len(s.Offline) == 0 {
		j.add(operator.Fault, Streams, "", "pass the store's name (natsstore.Config.Name) with -store, and connect as a user of the members' account", "there is no stream of %s in this account", s.Store)
	}
	j.fine(Streams, "%d streams of %s, with %s: all have a leader and their replicas, below their limits", len(s.Streams), s.Store, Size(bytes))
}

// replicas judges the replicas of a stream that has a leader. A healthy replica is often a few
// messages behind while there are writes.
func (j *judge) replicas(t Stream) {
	const do = "start that server, or look at its disk and its network"
	if !t.Clustered {
		return
	}
	for _, p := range t.Peers {
		switch subject := t.Name + " at " + p.Name; {
		case p.Offline:
			j.add(operator.Fault, Streams, subject, do, "%s: its replica at %s is offline, %d messages behind", t.Name, p.Name, p.Lag)
		case !p.Current && (p.Silent >= replicaSilent || p.Lag >= replicaLag):
			j.add(operator.Fault, Streams, subject, do, "%s: its replica at %s is %d messages behind, and was last heard %v ago", t.Name, p.Name, p.Lag, p.Silent.Round(time.Millisecond))
		}
	}
	if is := len(t.Peers) + 1; is < t.Replicas {
		j.add(operator.Fault, Streams, t.Name+" servers", "start servers, until each replica has one", "%s: only %d of its %d replicas exist", t.Name, is, t.Replicas)
	}
}
