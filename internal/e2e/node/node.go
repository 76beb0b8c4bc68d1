// Package node is the worker process of the fault runs: one node that hosts the
// workload. It prints its events as JSON lines on standard output.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/e2e/witness"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store/membertable"
	natsstore "github.com/shardgen/shardgen/store/nats"
	"github.com/shardgen/shardgen/stream"
	natsstream "github.com/shardgen/shardgen/stream/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// Command is the first argument of a program that runs as a node.
const Command = "node"

type Options struct {
	URL     string // of the NATS servers
	CA      string // the file of the authority that signed the servers' certificate; "" means the system's
	Ordered bool   // it connects to the first server of URL that it reaches, not to a random one
	Cluster string
	Name    string
	Witness string // the file to which it records its calls; must not exist
	Trace   string // the file in which a singleton says when it lived; "" means none is hosted
	Pulses  bool   // it hosts a type whose entities are remembered
	Durable bool   // it hosts durable types, whose store is on the servers
	// Replicas is the number of servers that keep each stream of the store; 0 means the store's
	// default.
	Replicas int
	// Stream is a stream with the subjects StreamSubjects, whose messages the node tells to stocks;
	// "" means none. If Forward is set, the stocks publish them.
	Stream  string
	Forward bool
	// CallTimeout and MinMembers are those of the node's Config; 0 means the defaults.
	CallTimeout time.Duration
	MinMembers  int
	// Listen and Advertise are those of the node's Config.Direct.
	Listen, Advertise string
	// Table is the node's membership table: JetStream, or a URL whose scheme is in Tables. "" means
	// that the nodes agree by gossip.
	Table string
}

// JetStream is the value of Options.Table for a membership table on the servers of Options.URL, in
// Options.Replicas copies.
const JetStream = "jetstream"

// Tables has a function for each scheme of a URL. The function opens the membership table at the
// URL. A program with a client of another storage adds a function for that storage's scheme before
// it calls Main.
var Tables = map[string]func(ctx context.Context, url string) (membertable.Provider, error){
	"nats": func(ctx context.Context, url string) (membertable.Provider, error) {
		return natsstore.Open(ctx, url, natsstore.Config{})
	},
}

// OpenTable opens a membership table other than JetStream's.
func OpenTable(ctx context.Context, url string) (membertable.Provider, error) {
	scheme, _, _ := strings.Cut(url, ":")
	if open := Tables[scheme]; open != nil {
		return open(ctx, url)
	}
	return nil, fmt.Errorf("membership table %q: want %q, or a URL whose scheme this program knows: %v", url, JetStream, slices.Sorted(maps.Keys(Tables)))
}

// Args returns the arguments of a program that runs as a node with these options.
func (o Options) Args() []string {
	return []string{
		Command, "-nats", o.URL, "-ca", o.CA, "-cluster", o.Cluster, "-name", o.Name, "-witness", o.Witness, "-trace", o.Trace,
		"-ordered=" + strconv.FormatBool(o.Ordered), "-pulses=" + strconv.FormatBool(o.Pulses), "-durable=" + strconv.FormatBool(o.Durable), "-call-timeout", o.CallTimeout.String(),
		"-min-members", strconv.Itoa(o.MinMembers), "-replicas", strconv.Itoa(o.Replicas),
		"-stream", o.Stream, "-forward=" + strconv.FormatBool(o.Forward), "-listen", o.Listen, "-advertise", o.Advertise, "-table", o.Table,
	}
}

// SpinArgs returns the arguments that make the program run no node: the process prints the event
// Spinning, and then computes on one core until it is killed.
func SpinArgs() []string { return []string{Command, "-spin"} }

// Main runs a node until ctx ends, and then leaves the cluster in order. If stdin closes, the
// process that started the node is gone, and Main returns at once. Main returns the exit code of
// the process.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) int {
	var o Options
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	flags.StringVar(&o.URL, "nats", "", "`URL` of the NATS servers")
	flags.StringVar(&o.CA, "ca", "", "`file` of the authority that signed the certificate of the NATS servers (default: the system's)")
	flags.BoolVar(&o.Ordered, "ordered", false, "connect to the first server of the URL that can be reached, not to any")
	flags.StringVar(&o.Cluster, "cluster", "", "`name` of the cluster")
	flags.StringVar(&o.Name, "name", "", "`name` of the node")
	flags.StringVar(&o.Witness, "witness", "", "`file` for the record of calls that ran")
	flags.StringVar(&o.Trace, "trace", "", "`file` for when the singleton lived (default: none is hosted)")
	flags.BoolVar(&o.Pulses, "pulses", false, "host a type whose entities are remembered")
	flags.BoolVar(&o.Durable, "durable", false, "host durable types, whose store is on the servers")
	flags.IntVar(&o.Replicas, "replicas", 0, "`number` of servers that keep each stream of the store (default: the store's)")
	flags.StringVar(&o.Stream, "stream", "", "`name` of a stream whose messages it tells to stocks (default: none)")
	flags.BoolVar(&o.Forward, "forward", false, "stocks publish the messages")
	flags.DurationVar(&o.CallTimeout, "call-timeout", 0, "bound on calls without a deadline (default: Config's)")
	flags.IntVar(&o.MinMembers, "min-members", 0, "`number` of members before the first one is up (default: Config's)")
	flags.StringVar(&o.Listen, "listen", "", "`address` to listen on for direct lanes (default: there are none)")
	flags.StringVar(&o.Advertise, "advertise", "", "`address` at which others reach it (default: that of -listen)")
	flags.StringVar(&o.Table, "table", "", "membership table: jetstream, or a `URL` (default: none, the nodes agree by gossip)")
	spin := flags.Bool("spin", false, "be no node, and compute without end on one core")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	v := voice{node: o.Name, to: json.NewEncoder(stdout)}
	go func() { // it ends with the process, because a read cannot be interrupted
		v.obey(stdin)
		os.Exit(1)
	}()
	if *spin {
		v.say(process.Event{Event: Spinning})
		workload.Spin()
	}
	if err := run(ctx, o, &v); err != nil {
		v.say(process.Event{Event: Ended, Error: err.Error()})
		return 1
	}
	v.say(process.Event{Event: Left})
	return 0
}

func run(ctx context.Context, o Options, v *voice) (err error) {
	w, err := witness.Create(o.Witness)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var options []nats.Option
	if o.Ordered {
		options = append(options, nats.DontRandomize())
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	cfg := shard.Config{
		Cluster: o.Cluster, Name: o.Name, Transport: natstransport.New(o.URL, natstransport.ConnectOptions(options...)), CallTimeout: o.CallTimeout,
		Membership: membership.Options{MinMembers: o.MinMembers}, Direct: shard.DirectOptions{Listen: o.Listen, Advertise: o.Advertise},
	}
	if o.Durable || o.Table == JetStream {
		s, err := natsstore.Open(ctx, o.URL, natsstore.Config{Replicas: o.Replicas, ConnectOptions: options})
		if err != nil {
			return err
		}
		defer s.Close()
		if o.Durable {
			cfg.Store = s
		}
		if o.Table == JetStream {
			cfg.Membership.Table.Store = s
		}
	}
	if o.Table != "" && o.Table != JetStream {
		t, err := OpenTable(ctx, o.Table)
		if err != nil {
			return err
		}
		cfg.Membership.Table.Store = t
	}
	n := shard.New(cfg)
	v.about.Store(n)
	if err := Host(n, w); err != nil {
		return err
	}
	if o.Durable {
		if err := hostDurable(n); err != nil {
			return err
		}
	}
	if o.Stream != "" {
		source, err := natsstream.Open(ctx, o.URL, natsstream.Config{Stream: o.Stream, Subjects: StreamSubjects(), ConnectOptions: options})
		if err != nil {
			return err
		}
		defer source.Close()
		if err := consume(n, source, o.Forward); err != nil {
			return err
		}
	}
	if o.Pulses {
		pulse := func() *workload.Pulse { return &workload.Pulse{Node: n.Name(), Witness: testify(w)} }
		if err := workload.HostPulse(n, pulse, shard.Remember(shard.RememberOptions{})); err != nil {
			return err
		}
	}
	if o.Trace != "" {
		closed, err := hostLeader(n, o.Trace, o.Durable)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closed()) }()
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer func() { _ = n.Close() }()
	watching.Go(func() { v.watch(n) })
	if err := n.Start(ctx); err != nil {
		return err
	}
	v.say(process.Event{Event: Up})
	select {
	case <-ctx.Done():
	case <-n.Done():
		return fmt.Errorf("node ended: %w", n.Err())
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return n.Shutdown(leave)
}

// hostLeader hosts the singleton. For each instance it writes to a new file the times at which the
// instance lived, one a line, in ns of the wall clock. These lines survive SIGKILL.
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

// Kinds of events that a node reports about itself.
const (
	Up    = "up"    // it has joined
	Left  = "left"  // it has left in order
	Ended = "ended" // it ended in another way
	Saw   = "saw"   // it saw a change of the cluster: Kind, Member and Time say which
	// Agreed means that from Time on the node sees all members agree on View. An empty View means
	// that they do not agree.
	Agreed = "agreed"
	// Shifted means that ShiftClock has changed the node's clock.
	Shifted = "shifted"
	// Counted is the answer to CountFrames.
	Counted = "counted"
	// Refused means that the node has read a line that is not a command.
	Refused = "refused"
	// Spinning means that a process of SpinArgs begins to compute.
	Spinning = "spinning"
)

// Host makes n host the entities of the workload, which record their calls with w.
func Host(n *shard.Node, w *witness.Writer) error {
	see := testify(w)
	tallies := workload.NewTallyClient(n)
	target := func(id string) workload.RelayTargets {
		return workload.RelayTargets{Ask: tallies.API(id), Tell: tallies.Tell(id)}
	}
	return errors.Join(
		workload.HostClerk(n, func() *workload.Clerk { return &workload.Clerk{} }, shard.MaxMailboxCalls(100)),
		workload.HostPoison(n, func() *workload.Poison { return &workload.Poison{Node: n.Name()} },
			shard.MaxMailboxCalls(10), shard.Supervise(func(error) shard.SupervisorAction { return shard.ActionRestart })),
		workload.HostTally(n, func() *workload.Tally { return &workload.Tally{Node: n.Name(), Witness: see} }),
		workload.HostRelay(n, func() *workload.Relay { return &workload.Relay{Node: n.Name(), Tallies: target} }),
	)
}

func hostDurable(n *shard.Node) error {
	stocks := workload.NewStockClient(n)
	stock := func(id string) workload.StockTell { return stocks.Tell(id) }
	return errors.Join(
		workload.HostLedger(n, func() *workload.Ledger { return &workload.Ledger{Node: n.Name()} }),
		workload.HostTill(n, func() *workload.Till { return &workload.Till{Node: n.Name(), Stocks: stock} }),
		workload.HostStock(n, func() *workload.Stock { return &workload.Stock{} }),
		workload.HostBell(n, func() *workload.Bell { return &workload.Bell{} }),
	)
}

// Feed is the name under which a node reads the stream of Options.Stream.
const Feed = "sales"

// StreamSubjects returns the subjects of the stream of Options.Stream: each is a partition.
func StreamSubjects() []string { return []string{"sales.0", "sales.1", "sales.2", "sales.3"} }

// StreamMessage returns the data of a stream's message: the stock and a sale's number. A message
// with number 0 becomes a dead letter.
func StreamMessage(stock string, number int64) []byte {
	return fmt.Appendf(nil, "%s %d", stock, number)
}

func consume(n *shard.Node, source stream.Source, forward bool) error {
	stocks := workload.NewStockClient(n)
	return shard.Consume(n, Feed, source, func(ctx context.Context, m shard.Message) error {
		id, text, _ := strings.Cut(string(m.Data), " ")
		number, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			return err
		case number == 0:
			return errors.New("no sale has the number 0")
		case forward:
			return stocks.Tell(id).Forward(ctx, number)
		}
		return stocks.Tell(id).Sold(ctx, number)
	})
}

func testify(w *witness.Writer) func(entity, sender string, seq uint64) {
	return func(entity, sender string, seq uint64) {
		if err := w.Write(entity, sender, seq); err != nil {
			panic(err) // without the witness's records the run proves nothing
		}
	}
}
