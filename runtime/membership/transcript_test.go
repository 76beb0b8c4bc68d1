package membership

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/internal/test/transcript"
)

// TestTranscripts runs testdata/*.txt, see package transcript and, for the
// commands, script.do.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) transcript.Command {
		s := &script{network: newNetwork(t), t: t, incarnations: map[string]uint64{}}
		return func(words []string) string {
			s.do(words)
			defer s.network.log.Reset()
			return shorten(s.network.log.String())
		}
	})
}

var zeros = regexp.MustCompile(`#0*([0-9a-f]+)`)

// shorten drops the leading zeros of incarnations.
func shorten(s string) string { return zeros.ReplaceAllString(s, "#$1") }

// A script is a transcript being run.
type script struct {
	t            *testing.T
	network      *network
	incarnations map[string]uint64
	options      []string
}

func (s *script) printf(format string, args ...any) {
	fmt.Fprintf(&s.network.log, format+"\n", args...)
}

func (s *script) node(key string) *simNode {
	n := s.network.nodes[key]
	if n == nil {
		s.t.Fatalf("no node %q", key)
	}
	return n
}

func (s *script) all(keys []string) []*simNode {
	nodes := make([]*simNode, len(keys))
	for i, key := range keys {
		nodes[i] = s.node(key)
	}
	return nodes
}

func (s *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// do runs one command:
//
//	options k=v …            for the nodes made after it
//	node KEY [k=v …]         makes a node (name, inc, server, seeds, compat, meta, …)
//	start KEY …              makes those that are not there, connects and starts
//	run 2s                   lets time pass
//	up KEY … within 1s       runs until exactly these are Up and agree
//	gone KEY … within 1s     runs until nobody alive has them as members
//	ended KEY within 1s      runs until its machine has ended
//	leave, ready, kill, freeze, thaw, deaf, mute, hear KEY
//	down KEY by KEY          the operator's word
//	undeliverable KEY by KEY the driver's word
//	storeless, store KEY …   the lease's store goes out of reach, or comes back
//	cut S T, heal S T        the route between two servers
//	lose KEY KEY             what the first sends to the second vanishes, from now on
//	stop S, serve S          a server
//	move KEY S               reconnects a node to a server
//	hang, dial KEY           its connection ends, or is made again
//	quiet, loud [KEY …]      whether events are printed
//	view KEY, lease KEY …    print
func (s *script) do(words []string) {
	w := s.network
	command, args := words[0], words[1:]
	switch command {
	case "options":
		s.options = args
	case "node":
		s.add(args[0], args[1:])
	case "start":
		for _, key := range args {
			if w.nodes[key] == nil || w.nodes[key].dead {
				s.add(key, nil)
			}
			w.start(w.nodes[key])
		}
	case "run":
		w.run(s.duration(args[0]), nil)
	case "up", "gone", "ended":
		s.await(command, args)
	case "undeliverable":
		w.step(s.node(args[2]), core.Undeliverable{Peer: s.node(args[0]).config.Self})
	case "cut", "heal":
		w.cuts[[2]string{args[0], args[1]}] = command == "cut"
		w.cuts[[2]string{args[1], args[0]}] = command == "cut"
	case "lose":
		from, to, before := s.node(args[0]), s.node(args[1]), w.lossy
		w.lossy = func(f, t *simNode) bool { return f == from && t == to || before != nil && before(f, t) }
	case "stop":
		w.stopServer(w.server(args[0]))
	case "serve":
		w.startServer(w.server(args[0]))
	case "move":
		w.disconnect(s.node(args[0]))
		s.node(args[0]).server = w.server(args[1])
		w.connect(s.node(args[0]))
	case "down":
		w.step(s.node(args[2]), core.DownNode{Node: addr(s.node(args[0]).name(), 0)})
	case "quiet", "loud":
		if len(args) == 0 {
			args = w.order
		}
		for _, n := range s.all(args) {
			n.quiet = command == "quiet"
		}
	default:
		for _, n := range s.all(args) {
			s.one(command, n)
		}
	}
}

// one runs a command that is about one node.
func (s *script) one(command string, n *simNode) {
	w := s.network
	switch command {
	case "leave":
		w.step(n, core.Leave{})
	case "ready":
		w.step(n, core.ExitReady{})
	case "kill":
		n.dead, n.connected = true, false
	case "freeze":
		w.freeze(n)
	case "thaw":
		w.thaw(n)
	case "deaf":
		n.deaf = true
	case "mute":
		n.mute = true
	case "hear":
		n.deaf, n.mute = false, false
	case "hang":
		w.disconnect(n)
	case "dial":
		w.connect(n)
	case "storeless":
		n.storeless = true
	case "store":
		n.storeless = false
	case "view":
		s.view(n)
	case "lease":
		s.lease(n)
	default:
		s.t.Fatalf("unknown command %q", command)
	}
}

func (s *script) view(n *simNode) {
	v := n.machine.View()
	s.printf("%s is %v, leader %s, converged %v %s", n.name(), v.SelfStatus, v.Leader.Name, v.Converged, v.Why)
	for _, r := range v.ByAge {
		reach := ""
		if !r.Reachable {
			reach = " unreachable: " + r.Evidence.String()
		}
		s.printf("  %v%s", r.Member, reach)
	}
}

func (s *script) lease(n *simNode) {
	switch lease := n.machine.Lease(); {
	case lease.IsZero():
		s.printf("%s: lease without end", n.name())
	case lease.After(s.network.now):
		s.printf("%s: lease runs", n.name())
	default:
		s.printf("%s: lease is over", n.name())
	}
}

// await runs until a condition holds, and prints how long that took.
func (s *script) await(what string, args []string) {
	w := s.network
	i := slices.Index(args, "within")
	limit, nodes := s.duration(args[i+1]), s.all(args[:i])
	begin := w.now
	ok := w.run(limit, func() bool {
		switch what {
		case "up":
			return w.converged(nodes)
		case "gone":
			return s.gone(nodes)
		}
		return !slices.ContainsFunc(nodes, func(n *simNode) bool { return n.machine.node.Phase != core.Ended })
	})
	if !ok {
		s.printf("NOT %s %v within %v", what, args[:i], limit)
		s.t.Errorf("%s %v: not within %v", what, args[:i], limit)
		return
	}
	s.printf("%s %s after %v", what, strings.Join(args[:i], " "), w.now.Sub(begin))
}

func (s *script) gone(nodes []*simNode) bool {
	for _, key := range s.network.order {
		n := s.network.nodes[key]
		if n.dead || n.frozen || n.machine.node.Phase == core.Ended {
			continue
		}
		for _, o := range nodes {
			if _, ok := n.machine.View().Member(o.config.Self); ok {
				return false
			}
		}
	}
	return true
}

// add makes a node from k=v words. Incarnations count up from 1.
func (s *script) add(key string, words []string) {
	config := core.Config{Cluster: "test", Differ: differ}
	name, server, incarnation := key, "s1", uint64(len(s.incarnations)+1)
	for _, word := range slices.Concat(s.options, words) {
		k, v, _ := strings.Cut(word, "=")
		switch k {
		case "name":
			name = v
		case "server":
			server = v
		case "inc":
			incarnation, _ = strconv.ParseUint(v, 10, 64)
		case "seeds":
			config.Seeds = strings.Split(v, ",")
		case "compat":
			a, b, _ := strings.Cut(v, ":")
			config.Compat = append(config.Compat, gossip.KeyValue{Key: a, Value: b})
		case "meta":
			a, b, _ := strings.Cut(v, ":")
			config.Meta = append(config.Meta, gossip.KeyValue{Key: a, Value: b})
		case "min":
			config.MinMembers, _ = strconv.Atoi(v)
		case "weakly":
			config.WeaklyUpAfter = s.duration(v)
		case "timeout":
			config.JoinTimeout = s.duration(v)
		case "single":
			config.Detection = gossip.DetectionSingleObserver
		case "small":
			config.SmallCluster, _ = strconv.Atoi(v)
		case "watched":
			config.MonitoredBy, _ = strconv.Atoi(v)
		case "vacancy":
			config.ProbeVacancy = true
		case "store":
			config.ProbeVacancy, config.Founding = true, true
		case "byhand":
			config.Downing = splitbrain.DowningManual
		case "downing":
			config.Downing = splitbrain.Downing(slices.Index(splitbrain.DowningNames[:], strings.ReplaceAll(v, "-", " ")))
			s.network.unsafe = config.Downing == splitbrain.DowningAuto
		case "quorum":
			config.QuorumSize, _ = strconv.Atoi(v)
		case "vote":
			config.DowningRole = v
		case "stable":
			config.StableAfter = s.duration(v)
		case "auto":
			config.AutoDownAfter = s.duration(v)
		case "alone":
			config.KeepOldestAlone = true
		case "roles":
			config.Roles = strings.Split(v, ",")
		case "minrole":
			role, n, _ := strings.Cut(v, ":")
			members, _ := strconv.Atoi(n)
			config.MinRoleMembers = append(config.MinRoleMembers, core.RoleMinimum{Role: role, Members: members})
		default:
			s.t.Fatalf("unknown option %q", word)
		}
	}
	s.incarnations[fmt.Sprint(key, incarnation)] = incarnation
	config.Self, config.Seed = addr(name, incarnation), incarnation
	s.network.add(key, server, config)
}

// differ describes the first key with different values, of the keys that both members have; "" if
// there is none.
func differ(a, b gossip.Member) string {
	for _, kv := range a.Meta {
		if value, ok := gossip.LookupKey(b.Meta, kv.Key); ok && value != kv.Value {
			return fmt.Sprintf("%s is %q at %s and %q at %s", kv.Key, kv.Value, a.Name, value, b.Name)
		}
	}
	return ""
}
