package sim_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/table"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/test/transcript"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestTableTranscripts runs testdata/*.txt: clusters that agree by a table. See package transcript
// and, for the commands, script.do.
func TestTableTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) transcript.Command {
		s := &script{t: t, nodes: make(map[string]*sim.Node), servers: 1}
		return func(words []string) string {
			s.do(words)
			if s.world != nil && s.world.Err() != nil {
				t.Fatal(s.world.Err())
			}
			defer s.log.Reset()
			return zeros.ReplaceAllString(s.log.String(), "#$1")
		}
	})
}

// zeros matches the zeros at the beginning of an incarnation.
var zeros = regexp.MustCompile(`#0*([0-9a-f]+)`)

// A script is a running transcript.
type script struct {
	t       *testing.T
	world   *sim.World
	servers int
	nodes   map[string]*sim.Node
	count   uint64
	options []string
	loud    bool
	log     strings.Builder
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.log, format+"\n", args...) }

func (s *script) node(name string) *sim.Node {
	n := s.nodes[name]
	if n == nil {
		s.t.Fatalf("no node %q", name)
	}
	return n
}

func (s *script) all(names []string) (nodes []*sim.Node) {
	for _, name := range names {
		nodes = append(nodes, s.node(name))
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

func (s *script) server(word string) *sim.Server {
	i, err := strconv.Atoi(strings.TrimPrefix(word, "s"))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.world.Servers()[i-1]
}

// do runs one command:
//
//	servers N                before the first node
//	options k=v …            for the nodes started after it
//	start NODE[@s2] …        starts processes, at the first server or the named one
//	run 2s                   lets time pass
//	up NODE … within 1s      runs until exactly these are Up in the view of each of them
//	dead, fenced NODE … within 1s  runs until the table has them so
//	ended NODE … within 1s   runs until their processes have ended
//	leave, ready, kill, host, freeze, thaw, deaf, mute, hear, disconnect NODE …
//	down, undeliverable NODE by NODE
//	outage, table            the table goes out of the reach of all, or comes back
//	tableless, tabled NODE … the same for some
//	part, mend s1 s2         the way between two servers
//	loud, quiet              whether events are printed
//	serving, rows, view NODE, health NODE …  print
func (s *script) do(words []string) {
	command, args := words[0], words[1:]
	switch command {
	case "servers":
		s.servers, _ = strconv.Atoi(args[0])
	case "options":
		s.options = args
	case "start":
		for _, word := range args {
			s.start(word)
		}
	case "run":
		s.world.Run(s.duration(args[0]))
	case "up", "dead", "fenced", "ended":
		s.await(command, args)
	case "down":
		s.world.Give(s.node(args[2]), membership.DownNode{Node: s.node(args[0]).Address})
	case "undeliverable":
		s.world.Give(s.node(args[2]), membership.Undeliverable{Peer: s.node(args[0]).Address})
	case "outage", "table":
		s.world.TableDown(command == "outage")
	case "part":
		s.world.Part(s.server(args[0]), s.server(args[1]))
	case "mend":
		s.world.Mend(s.server(args[0]), s.server(args[1]))
	case "loud", "quiet":
		s.loud = command == "loud"
	case "serving":
		s.printf("serving: %s", strings.Join(serving(s.world), " "))
	case "rows":
		t := s.world.Table()
		s.printf("version %d", t.Version)
		for i := range t.Rows {
			s.printf("  %v", &t.Rows[i])
		}
	default:
		for _, n := range s.all(args) {
			s.one(command, n)
		}
	}
}

// one runs a command that is about one process.
func (s *script) one(command string, n *sim.Node) {
	w := s.world
	switch command {
	case "leave":
		w.Give(n, membership.Leave{})
	case "ready":
		w.Give(n, membership.ExitReady{})
	case "kill":
		w.Kill(n)
	case "host":
		w.KillHost(n)
	case "freeze":
		w.Freeze(n)
	case "thaw":
		w.Thaw(n)
	case "deaf":
		w.Lose(n, 1, 0)
	case "mute":
		w.Lose(n, 0, 1)
	case "hear":
		w.Lose(n, 0, 0)
	case "disconnect":
		w.Disconnect(n)
	case "tableless", "tabled":
		w.CutTable(n, command == "tableless")
	case "view":
		s.view(n)
	case "health":
		s.printf("%s: health %d", n.Address.Name, n.Machine().(*table.Machine).Health())
	default:
		s.t.Fatalf("unknown command %q", command)
	}
}

func (s *script) view(n *sim.Node) {
	v := n.View()
	s.printf("%s is %v, leader %s, converged %v %s", n.Address.Name, v.SelfStatus, v.Leader.Name, v.Converged, v.Why)
	for _, r := range v.ByAge {
		reach := ""
		if !r.Reachable {
			reach = " unreachable: " + r.Evidence.String()
		}
		s.printf("  %v%s", r.Member, reach)
	}
}

// start starts a process; "b@s2" is b at the second server. Incarnations count up from 1.
func (s *script) start(word string) {
	if s.world == nil {
		s.world = sim.New(sim.Config{Servers: s.servers, Recode: true})
		s.world.OnEvents = func(n *sim.Node, events []membership.Event) {
			for _, e := range events {
				_, leader := e.(membership.LeaderChanged)
				_, converged := e.(membership.ConvergedChanged)
				if s.loud && !leader && !converged {
					s.printf("%7.3fs %s: %v", s.world.Now().Seconds(), n.Address.Name, e)
				}
			}
		}
	}
	name, at, _ := strings.Cut(word, "@")
	server := 0
	if at != "" {
		server, _ = strconv.Atoi(strings.TrimPrefix(at, "s"))
		server--
	}
	s.count++
	config := membership.Config{Self: transport.Address{Name: name, Incarnation: s.count}, Seed: s.count, Table: membership.Table{Enabled: true}}
	for _, option := range s.options {
		s.configure(&config, option)
	}
	n, err := s.world.Add(config, sim.Place{Server: server, Offset: time.Duration(s.count) * time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	s.nodes[name] = n
	s.world.Start(n)
}

func (s *script) configure(c *membership.Config, option string) {
	k, v, _ := strings.Cut(option, "=")
	number, _ := strconv.Atoi(v)
	switch k {
	case "gossip":
		c.Table.Enabled = false
	case "min":
		c.MinMembers = number
	case "votes":
		c.Table.Votes = number
	case "compat":
		a, b, _ := strings.Cut(v, ":")
		c.Compat = []membership.KeyValue{{Key: a, Value: b}}
	case "timeout":
		c.JoinTimeout = s.duration(v)
	case "alive":
		c.Table.AliveInterval = s.duration(v)
	case "outage":
		c.Table.Outage = s.duration(v)
	case "clean":
		c.Table.CleanAfter = s.duration(v)
	default:
		s.t.Fatalf("unknown option %q", option)
	}
}

// await runs until a condition holds, and prints how long it took.
func (s *script) await(what string, args []string) {
	i := slices.Index(args, "within")
	limit, nodes := s.duration(args[i+1]), s.all(args[:i])
	began := s.world.Now()
	ok := s.world.RunUntil(limit, 5*time.Millisecond, func() bool {
		return !slices.ContainsFunc(nodes, func(n *sim.Node) bool {
			row := s.world.Table().Row(n.Address)
			switch what {
			case "dead":
				return row == nil || row.Status != membership.Down
			case "fenced":
				return row == nil || !row.Fenced
			case "ended":
				return !n.Ended()
			}
			return !sim.Agreed(nodes)
		})
	})
	if !ok {
		s.printf("NOT %s %v within %v", what, args[:i], limit)
		s.t.Errorf("%s %v: not within %v: %v", what, args[:i], limit, s.world.Table())
		return
	}
	s.printf("%s %s after %v", what, strings.Join(args[:i], " "), (s.world.Now() - began).Round(100*time.Millisecond))
}
