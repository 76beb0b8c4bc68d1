// Package cluster runs several node processes against one or more NATS servers.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/driver/direct"
	"github.com/shardgen/shardgen/internal/e2e/netns"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
	"github.com/shardgen/shardgen/internal/e2e/proxy"
	"github.com/shardgen/shardgen/internal/e2e/witness"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store/membertable"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

type Options struct {
	Program string // the program of a node; its first argument is node.Command
	URL     string // of running NATS servers; "" means nats-server processes of the cluster's own
	Servers int    // the number of servers that the cluster starts. Default 1
	Dir     string // for logs and witnesses; must exist
	// Separate runs servers, nodes and callers on hosts of their own, each in a network namespace,
	// between which packets can be dropped (see Network). The servers are the cluster's own, so URL
	// must be empty.
	Separate bool
	// Near returns the number of the server, from 0, to which a node or caller connects
	// while it is reachable. Nil means any server.
	Near func(name string) int
	// Singleton makes the nodes host a singleton that records when it lives.
	Singleton bool
	// Pulses makes the nodes host a type whose entities are remembered.
	Pulses bool
	// Durable makes the servers run JetStream, and the nodes host a durable type. The servers must
	// be the cluster's own.
	Durable bool
	// Replicas is the number of servers that keep each stream of the store. Default 1.
	Replicas int
	// Stream and Forward are those of the nodes: see node.Options.
	Stream  string
	Forward bool
	// CallTimeout bounds calls without a deadline, of nodes and callers. Default: that of
	// shard.Config.
	CallTimeout time.Duration
	// Direct gives nodes and callers direct lanes. If hosts are separate, each node advertises its
	// host's address. The servers' connections then have TLS, because direct lanes are refused
	// without it.
	Direct bool
	// Proxied makes the direct lanes of each node go through a Proxy in this process, which can
	// break them. Hosts must not be separate.
	Proxied bool
	// MinMembers is the nodes' Config.Membership.MinMembers; 0 means the default.
	MinMembers int
	// Table is the nodes' membership table: see node.Options.
	Table string
	// TableApart makes each node reach the table through a Proxy (see TableProxy). It keeps the
	// table of node.JetStream on a server of its own, so that only the table can be made
	// unreachable.
	TableApart bool
}

func (o Options) jetStream() bool { return o.Durable || o.Table == node.JetStream && !o.TableApart }

// A Cluster is a set of node processes. All methods are safe for concurrent use.
type Cluster struct {
	options Options
	name    string
	servers []*natsproc.Server // none if Options.URL names others
	network *netns.Network     // nil if hosts are not separate
	tls     *natsproc.TLS      // nil if the servers have none

	mu    sync.Mutex
	hosts map[string]*netns.Host // by the names of servers ("s1"), nodes, callers and "table"
	nodes []*Node                // all nodes ever started, in order
	logs  []io.Closer
	// proxies has the proxy of each node's direct lanes, in the order of nodes.
	proxies []*proxy.Proxy
	// table is the server that Options.TableApart starts; nil if the table is elsewhere. tableURL
	// is the table's address. tableProxies has the proxies before it, by node name; that of hostTable
	// has no name.
	table        *natsproc.Server
	tableURL     string
	tableProxies map[string]*proxy.Proxy
	// stores are the callers' stores; callers are the results of Dial.
	stores  []*natsstore.Store
	callers []*shard.Conn
	asked   int // the number of the latest request to nodes
}

// New starts the NATS servers, but no node. The caller must Close the cluster.
func New(o Options) (*Cluster, error) {
	c := &Cluster{
		options: o, name: "e2e-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36),
		hosts: make(map[string]*netns.Host), tableURL: o.Table, tableProxies: make(map[string]*proxy.Proxy),
	}
	if o.Table == node.JetStream && o.TableApart {
		server, err := natsproc.Run("-js", "-sd", filepath.Join(o.Dir, "table"))
		if err != nil {
			return nil, err
		}
		c.table, c.tableURL = server, server.URL()
	}
	if o.Separate {
		network, err := netns.New()
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.network = network
		if o.Table != "" && o.Table != node.JetStream {
			if err := c.hostTable(); err != nil {
				return nil, errors.Join(err, c.Close())
			}
		}
	}
	if o.URL == "" {
		servers, err := c.runServers(max(o.Servers, 1))
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		var urls []string
		for _, s := range servers {
			urls = append(urls, s.URL())
		}
		c.servers, c.options.URL = servers, strings.Join(urls, ",")
	}
	return c, nil
}

// hostTable puts a proxy of Options.Table on a host of its own, because the network between hosts has
// no way out.
func (c *Cluster) hostTable() error {
	u, err := url.Parse(c.options.Table)
	switch {
	case err != nil:
		return err
	case u.Port() == "":
		return fmt.Errorf("the table's URL %s has no port (add it, so that hosts of their own can reach the table)", u.Redacted())
	}
	h, err := c.Host("table")
	if err != nil {
		return err
	}
	var l net.Listener
	if err := h.Do(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(h.Addr(), "0"))
		return err
	}); err != nil {
		return err
	}
	p := proxy.On(l)
	p.Forward(u.Host)
	u.Host = p.Addr()
	c.tableURL, c.tableProxies[""] = u.String(), p
	return nil
}

func (c *Cluster) runServers(n int) ([]*natsproc.Server, error) {
	places := natsproc.Places{At: make([]natsproc.Place, n)}
	var addresses []net.IP
	for i := range n {
		if c.options.jetStream() {
			places.Stores = append(places.Stores, filepath.Join(c.options.Dir, fmt.Sprint("jetstream-", i+1)))
		}
		if c.network == nil {
			continue
		}
		h, err := c.Host(fmt.Sprint("s", i+1))
		if err != nil {
			return nil, err
		}
		places.At[i] = h
		addresses = append(addresses, net.ParseIP(h.Addr()))
	}
	if c.network != nil && c.options.Direct {
		tls, err := makeTLS(c.options.Dir, addresses)
		if err != nil {
			return nil, err
		}
		c.tls, places.TLS = &tls, &tls
	}
	if n > 1 || c.tls != nil {
		return natsproc.RunClusterAt(places)
	}
	var args []string
	if places.Stores != nil {
		args = []string{"-js", "-sd", places.Stores[0]}
	}
	server, err := natsproc.RunAt(places.At[0], args...)
	if err != nil {
		return nil, err
	}
	return []*natsproc.Server{server}, nil
}

// Network returns the network between the hosts, or nil unless Options.Separate is set.
func (c *Cluster) Network() *netns.Network { return c.network }

// Host returns the host of the server, node or caller with that name, started or not. It returns nil
// unless Options.Separate is set. A node started again keeps the host of its name.
func (c *Cluster) Host(name string) (*netns.Host, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hostLocked(name)
}

func (c *Cluster) hostLocked(name string) (*netns.Host, error) {
	if c.network == nil || c.hosts[name] != nil {
		return c.hosts[name], nil
	}
	h, err := c.network.Add(name)
	if err != nil {
		return nil, err
	}
	c.hosts[name] = h
	return h, nil
}

// Servers returns the servers that the cluster has started; none if Options.URL names others.
func (c *Cluster) Servers() []*natsproc.Server { return c.servers }

func (c *Cluster) URL() string { return c.options.URL }

// urlFor returns the servers' URLs for a node or caller, its own server first.
func (c *Cluster) urlFor(name string) string {
	if c.options.Near == nil || len(c.servers) < 2 {
		return c.options.URL
	}
	var urls []string
	for i := range c.servers {
		urls = append(urls, c.servers[(c.options.Near(name)+i)%len(c.servers)].URL())
	}
	return strings.Join(urls, ",")
}

func (c *Cluster) Name() string { return c.name }

// Start starts nodes concurrently and waits until all are up.
func (c *Cluster) Start(ctx context.Context, names ...string) ([]*Node, error) {
	var started []*Node
	for _, name := range names {
		n, err := c.Launch(name)
		if err != nil {
			return nil, err
		}
		started = append(started, n)
	}
	for _, n := range started {
		if err := n.Await(ctx, node.Up); err != nil {
			return nil, err
		}
	}
	return started, nil
}

// Nodes returns all nodes ever started, in order of their starts.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// Launch starts a node without waiting until it is up.
func (c *Cluster) Launch(name string) (*Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A node may be started again under its name, so its files have a number, too.
	base := filepath.Join(c.options.Dir, fmt.Sprintf("%02d-%s", len(c.nodes), name))
	logs, err := os.Create(base + ".log")
	if err != nil {
		return nil, err
	}
	c.logs = append(c.logs, logs)
	o := node.Options{
		URL: c.urlFor(name), Ordered: c.options.Near != nil, Cluster: c.name, Name: name, Witness: base + ".witness",
		Pulses: c.options.Pulses, Durable: c.options.Durable, Replicas: c.options.Replicas, CallTimeout: c.options.CallTimeout,
		MinMembers: c.options.MinMembers, Table: c.tableURL, Stream: c.options.Stream, Forward: c.options.Forward,
	}
	if c.options.TableApart {
		if o.Table, err = c.proxiedLocked(name); err != nil {
			return nil, err
		}
	}
	if c.tls != nil {
		o.CA = c.tls.CA
	}
	if c.options.Singleton {
		o.Trace = base + ".trace"
	}
	host, err := c.hostLocked(name)
	if err != nil {
		return nil, err
	}
	var place natsproc.Place
	if host != nil {
		place = host
	}
	if c.options.Direct {
		if err := c.listenLocked(&o, host); err != nil {
			return nil, err
		}
	}
	p, err := process.StartAt(place, name, logs, c.options.Program, o.Args()...)
	if err != nil {
		return nil, err
	}
	n := &Node{Process: p, witness: o.Witness, trace: o.Trace, log: base + ".log"}
	c.nodes = append(c.nodes, n)
	return n, nil
}

const directPort = "7000"

// listenLocked sets the address for direct lanes. c.mu must be held.
func (c *Cluster) listenLocked(o *node.Options, host *netns.Host) error {
	switch {
	case host != nil:
		o.Listen, o.Advertise = ":"+directPort, host.Addr()
		return nil
	case !c.options.Proxied:
		o.Listen = "127.0.0.1:0"
		return nil
	}
	address, err := natsproc.FreeAddress("127.0.0.1")
	if err != nil {
		return err
	}
	o.Listen = address
	p, err := proxy.New()
	if err != nil {
		return err
	}
	p.Forward(o.Listen)
	o.Advertise = p.Addr()
	c.proxies = append(c.proxies, p)
	return nil
}

// proxiedLocked returns the table's URL through the node's proxy. c.mu must be held.
func (c *Cluster) proxiedLocked(name string) (string, error) {
	u, err := url.Parse(c.tableURL)
	if err != nil {
		return "", err
	}
	p := c.tableProxies[name]
	if p == nil {
		if p, err = proxy.New(); err != nil {
			return "", err
		}
		p.Forward(u.Host)
		c.tableProxies[name] = p
	}
	u.Host = p.Addr()
	return u.String(), nil
}

// SetTable sets Options.Table for nodes that are started from now on. The cluster must have
// Options.Durable, and table is "" or node.JetStream.
func (c *Cluster) SetTable(table string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options.Table, c.tableURL = table, table
}

// Table returns the latest value of SetTable, or Options.Table.
func (c *Cluster) Table() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.options.Table
}

// OpenTable opens the nodes' membership table, for a member in this process; nil if the nodes agree by
// gossip. Close closes it.
func (c *Cluster) OpenTable(ctx context.Context) (membertable.Provider, error) {
	switch table := c.Table(); table {
	case "":
		return nil, nil
	case node.JetStream:
		return c.openStore(ctx, c.URL())
	default:
		return node.OpenTable(ctx, table)
	}
}

// openStore opens the nodes' store by a server's URL. Close closes it.
func (c *Cluster) openStore(ctx context.Context, url string) (*natsstore.Store, error) {
	s, err := natsstore.Open(ctx, url, natsstore.Config{Replicas: c.options.Replicas})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores = append(c.stores, s)
	return s, nil
}

// TableProxy returns the proxy between a node and the table; nil unless Options.TableApart is set
// and the node has been started.
func (c *Cluster) TableProxy(name string) *proxy.Proxy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tableProxies[name]
}

// Proxies returns the proxies before the direct lanes of all nodes ever started, in order of their
// starts; none unless Options.Proxied is set.
func (c *Cluster) Proxies() []*proxy.Proxy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.proxies)
}

// Leave lets a node leave in order and waits until its process has ended.
func (c *Cluster) Leave(ctx context.Context, n *Node) error {
	if err := n.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return n.AwaitEnd(ctx)
}

// Dial connects this process to the cluster as a caller. With Options.Durable the caller has the
// store, too.
func (c *Cluster) Dial(ctx context.Context, name string) (*shard.Conn, error) {
	logs, err := os.Create(filepath.Join(c.options.Dir, name+".log"))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.logs = append(c.logs, logs)
	host, err := c.hostLocked(name)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var options []nats.Option
	if host != nil {
		options = append(options, nats.SetCustomDialer(host))
		ctx = direct.WithDialer(ctx, host)
	}
	if c.tls != nil {
		options = append(options, nats.RootCAs(c.tls.CA))
	}
	if c.options.Near != nil {
		options = append(options, nats.DontRandomize())
	}
	cfg := shard.Config{
		Cluster: c.name, Name: name, Transport: natstransport.New(c.urlFor(name), natstransport.ConnectOptions(options...)),
		Logger: slog.New(slog.NewTextHandler(logs, nil)), CallTimeout: c.options.CallTimeout,
		Direct: shard.DirectOptions{Dial: c.options.Direct},
	}
	if c.options.Durable {
		s, err := c.openStore(ctx, c.urlFor(name))
		if err != nil {
			return nil, err
		}
		cfg.Store = s
	}
	conn, err := shard.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.callers = append(c.callers, conn)
	c.mu.Unlock()
	return conn, nil
}

const countWithin = 5 * time.Second

// Frames returns how many data frames nodes and callers have sent so far. It leaves out nodes that
// have ended.
func (c *Cluster) Frames(ctx context.Context) (Count, error) {
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	count := Count{nodes: make(map[*Node]Frames)}
	c.mu.Lock()
	c.asked++
	question, nodes := c.asked, slices.Clone(c.nodes)
	for _, conn := range c.callers {
		counters := conn.Counters()
		count.callers = append(count.callers, Frames{counters["frames sent"], counters["frames sent directly"]})
	}
	c.mu.Unlock()
	for _, n := range nodes {
		if n.Ended() {
			continue
		}
		f, err := n.frames(ctx, question)
		if err == nil {
			count.nodes[n] = f
		} else if !n.Ended() {
			return count, err
		}
	}
	return count, nil
}

// Witnessed returns all calls that have run at any node so far.
func (c *Cluster) Witnessed() ([]witness.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var paths []string
	for _, n := range c.nodes {
		paths = append(paths, n.witness)
	}
	return witness.Read(paths...)
}

// Close kills all processes of the cluster.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Kill())
	}
	for _, s := range c.stores {
		s.Close()
	}
	for _, l := range c.logs {
		errs = append(errs, l.Close())
	}
	for _, s := range c.servers {
		errs = append(errs, s.Kill())
	}
	if c.table != nil {
		errs = append(errs, c.table.Kill())
	}
	for _, p := range c.tableProxies {
		p.Close()
	}
	if c.network != nil {
		errs = append(errs, c.network.Close())
	}
	for _, p := range c.proxies {
		p.Close()
	}
	c.nodes, c.logs, c.stores, c.servers, c.table, c.proxies, c.tableProxies = nil, nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// A Node is one process of the cluster.
type Node struct {
	*process.Process
	witness string
	trace   string // "" without a singleton
	log     string
}

// Log returns the path of the node's log.
func (n *Node) Log() string { return n.log }

// frames asks the node how many data frames it has sent. question is a new request's number.
func (n *Node) frames(ctx context.Context, question int) (Frames, error) {
	if _, err := io.WriteString(n, node.CountFrames(question)); err != nil {
		return Frames{}, fmt.Errorf("count the frames of %s: %w", n.Name(), err)
	}
	e, err := n.AwaitThat(ctx, "to count its frames", func(e process.Event) bool {
		return e.Event == node.Counted && e.Question == question
	})
	return Frames{e.Frames, e.Direct}, err
}

// Witnessed returns all calls that have run at the node so far.
func (n *Node) Witnessed() ([]witness.Record, error) { return witness.Read(n.witness) }

// Lived returns when the singleton's instance at the node began and ended: zero times if the node had
// no instance.
func (n *Node) Lived() (from, to time.Time, err error) {
	b, err := os.ReadFile(n.trace)
	if err != nil {
		return from, to, err
	}
	for line := range strings.Lines(string(b)) {
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			continue // the process was killed while it wrote the line
		}
		to = time.Unix(0, ns)
		if from.IsZero() {
			from = to
		}
	}
	return from, to, nil
}

// Frames counts the data frames that a process has sent. Direct is how many of All took direct
// lanes.
type Frames struct{ All, Direct uint64 }

// A Count has the frames of each process of a cluster.
type Count struct {
	nodes   map[*Node]Frames
	callers []Frames // of Dial, in order
}

// Nodes returns the sum of the frames that nodes have sent.
func (c Count) Nodes() (sum Frames) {
	for _, f := range c.nodes {
		sum.add(f)
	}
	return sum
}

// Callers returns the sum of the frames that callers have sent.
func (c Count) Callers() (sum Frames) {
	for _, f := range c.callers {
		sum.add(f)
	}
	return sum
}

// Since returns the frames sent after the earlier count, without the frames of processes that have
// ended meanwhile.
func (c Count) Since(earlier Count) Count {
	since := Count{nodes: make(map[*Node]Frames)}
	for n, f := range c.nodes {
		before := earlier.nodes[n] // none if it was started later
		since.nodes[n] = Frames{f.All - before.All, f.Direct - before.Direct}
	}
	for i, f := range c.callers {
		if i < len(earlier.callers) {
			f = Frames{f.All - earlier.callers[i].All, f.Direct - earlier.callers[i].Direct}
		}
		since.callers = append(since.callers, f)
	}
	return since
}

func (f *Frames) add(o Frames) { f.All, f.Direct = f.All+o.All, f.Direct+o.Direct }
