package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Conn calls the entities of a cluster from a process that is not a member. It gets the shard
// table from one member and sends calls directly to the entities' homes. After a restart of all
// members the Conn follows the new cluster. It sends calls there again if they certainly did not
// run, or if their entities are durable; other calls fail with [ErrLost]. A Conn is safe for
// concurrent use.
type Conn struct {
	cfg     Config
	log     *slog.Logger
	driver  *node.Driver
	link    transport.Link
	loop    *tasks.Loop
	control *control.Client // used on the loop

	served  chan struct{} // closed when the first table came
	once    sync.Once
	denied  chan struct{} // closed when a member refused this connection
	deny    sync.Once
	end     sync.Once
	done    chan struct{}
	unsent  error // the result of Close; set before done is closed
	mu      sync.Mutex
	refused error             // the latest refusal by a member
	kinds   map[string]uint32 // the number of shards of each hosted kind
	reasons control.Reasons   // why shards lack a home
	heardAt time.Time         // the latest time passed to Heard
}

var _ Caller = (*Conn)(nil)

// Dial connects to a cluster from a process that is not a member. It returns when a member serves
// the connection. If a member refuses the connection, Dial fails at once. If no member answers,
// Dial fails when ctx ends or after Config.Membership.JoinTimeout, whichever comes first.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Membership.JoinTimeout)
	defer cancel()
	c := &Conn{
		cfg: cfg, loop: tasks.NewLoop(),
		served: make(chan struct{}), denied: make(chan struct{}), done: make(chan struct{}), kinds: map[string]uint32{},
	}
	c.log = cfg.Logger.With("client", cfg.Name)
	self := transport.Peer{Address: transport.Address{Name: cfg.Name, Incarnation: identity.New(identity.Client)}, Client: true}
	c.driver = node.NewDriver(cfg.engine(), self, (*connPlane)(c))
	c.driver.Lease.Renew(time.Time{})
	c.control = control.NewClient(control.ClientConfig{
		Cluster: cfg.Cluster, Self: self, Lanes: cfg.Lanes,
		Seekers: func(p singlehost.Client) *singlehost.Seekers { return singlehost.NewSeekers(p) },
	}, (*clientEnv)(c))
	if err := c.driver.OpenDirect(ctx); err != nil {
		return nil, fmt.Errorf("dial cluster %s: %w", cfg.Cluster, err)
	}
	link, err := cfg.Transport.Open(ctx, transport.Options{
		Cluster: cfg.Cluster, Self: self.Address, Client: true, Lanes: cfg.Lanes,
		OnState: c.driver.ConnState, Logger: c.log,
	})
	if err != nil {
		return nil, fmt.Errorf("dial cluster %s: %w", cfg.Cluster, err)
	}
	if err := peers.CheckPayload(link); err != nil {
		_ = link.Close()
		return nil, fmt.Errorf("dial cluster %s: %w", cfg.Cluster, err)
	}
	c.link = link
	c.driver.Open(link)
	c.driver.Group.Go(c.receive)
	c.driver.Group.Go(func() { c.loop.Run(c.driver.Stop, c.control.Tick, c.control.WakeAt) })
	c.loop.Post(c.control.Tick)
	if err := c.awaitServed(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("dial cluster %s: %w", cfg.Cluster, err)
	}
	return c, nil
}

// awaitServed returns nil when a member serves the connection, and an error when a member refuses
// it or ctx ends. If it still waits after tellAfter, it logs the reason.
func (c *Conn) awaitServed(ctx context.Context) error {
	late := time.NewTimer(tellAfter)
	defer late.Stop()
	for {
		select {
		case <-c.served:
			return nil
		case <-c.denied:
			return c.whyRefused()
		case <-late.C:
			c.log.Warn("still dialing", "cluster", c.cfg.Cluster, "after", tellAfter, "why", errNobodyServes)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), errNobodyServes)
		}
	}
}

var errNobodyServes = errors.New("no member answered (are workers of this cluster up, at least Config.Membership.MinMembers of them?)")

// refusal handles a member's refusal. While Dial waits, a refusal makes Dial fail. Later a refusal
// is only logged, because another member may serve the connection.
func (c *Conn) refusal(err error) {
	c.mu.Lock()
	known := c.refused != nil && c.refused.Error() == err.Error()
	c.refused = err
	c.mu.Unlock()
	if !known {
		c.log.Warn("refused by a member", "cluster", c.cfg.Cluster, "why", err)
	}
	c.deny.Do(func() { close(c.denied) })
}

func (c *Conn) whyRefused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// ShardInvoker is called by generated code only.
func (c *Conn) ShardInvoker(k codegen.Kind) codegen.Invoker {
	return node.InvokerOf(c.driver.Kind(k))
}

// Close ends the connection. Close waits up to two seconds until all tells have arrived; asks that
// have no answer by then fail. Close returns nil if all tells have reached the entities' homes.
// Otherwise its error says how many tells were not delivered, how many of these did not run, and
// how many may have run. Close returns within three seconds, in any state of the broker and the
// homes. It may be called twice.
func (c *Conn) Close() error {
	c.end.Do(func() {
		c.unsent = c.finish()
		close(c.done)
	})
	<-c.done
	return c.unsent
}

const (
	// closePatience bounds Close, including node.TellPatience.
	closePatience = 3 * time.Second
	// endPatience is the part of closePatience that is kept for waiting until goroutines end.
	endPatience = 500 * time.Millisecond
)

func (c *Conn) finish() error {
	unsent, unsure := c.driver.Undelivered.Unsent.Load(), c.driver.Undelivered.Unsure.Load()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	settling, settled := context.WithTimeout(ctx, node.TellPatience)
	node.Drain{Driver: c.driver}.SettleTells(settling)
	settled()
	c.sayGoodbye(ctx)
	c.driver.Close()
	c.driver.Group.Go(func() { _ = c.link.Close() })
	if !c.driver.Group.Wait(ctx) {
		c.log.Warn("the connection was closed, but its goroutines have not ended", "after", closePatience)
	}
	c.driver.DropTells(time.Now()) // tells that came back meanwhile
	return c.driver.Undelivered.Since(unsent, unsure)
}

// sayGoodbye drains the data plane and announces the end of the connection. It stops at the latest
// endPatience before the deadline of ctx.
func (c *Conn) sayGoodbye(ctx context.Context) {
	by, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(ctx, by.Add(-endPatience))
	defer cancel()
	said := make(chan struct{})
	c.driver.Group.Go(func() {
		node.Drain{Driver: c.driver}.Run(ctx, time.Time{}) // SettleTells has waited
		c.loop.Post(func() {
			c.control.Bye()
			close(said)
		})
	})
	select {
	case <-said:
	case <-ctx.Done():
	}
}

func (c *Conn) receive() {
	for {
		m, err := c.link.Receive(transport.Control)
		if err != nil {
			return
		}
		c.loop.Post(func() { c.control.Receive(m) })
	}
}

// Health returns the health of this connection. It does no I/O.
func (c *Conn) Health() Health { return connHealth(c, time.Now()) }

// Counters returns the counters of this connection; see [Node.Counters].
func (c *Conn) Counters() map[string]uint64 { return c.driver.Counters() }

// Calls returns the counts of the calls of this connection; see [Node.Calls].
func (c *Conn) Calls() measure.Calls { return c.driver.Calls() }

type connPlane Conn

func (c *connPlane) Ask(kind string) { c.loop.Post(func() { c.control.Ask(kind) }) }

// Suspect reports to the control loop that nobody listens at the address.
func (c *connPlane) Suspect(transport.Address) { c.loop.Post(c.control.Suspect) }

func (c *connPlane) Knows(transport.Address) bool                           { return false }
func (c *connPlane) TurnAway(transport.Peer, string)                        {}
func (c *connPlane) MoveDone(placement.ShardID, placement.Epoch)            {}
func (c *connPlane) MoveAborted(placement.ShardID, placement.Epoch, string) {}
func (c *connPlane) Progress(placement.ShardID)                             {}
func (c *connPlane) Escalate(error)                                         {}

func (c *connPlane) ShardsOf(kind string) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds[kind]
}

// Why returns the latest reason why the kind's shards lack homes.
func (c *connPlane) Why(kind string, now time.Time) string { return c.reasons.Said(kind, now) }

// Waits returns why calls of the kind wait, and whether any member hosts the kind, as far as a
// client knows.
func (c *connPlane) Waits(kind string, now time.Time) (why string, hosted bool) {
	c.mu.Lock()
	silent, names := now.Sub(c.heardAt), slices.Sorted(maps.Keys(c.kinds))
	c.mu.Unlock()
	if silent > 2*control.HelloEvery {
		return fmt.Sprintf("no member has answered this process for %v (is one up?)", silent.Round(100*time.Millisecond)), true
	}
	if !slices.Contains(names, kind) {
		others := ""
		if len(names) > 0 {
			others = ", only " + strings.Join(names, ", ")
		}
		return fmt.Sprintf("no member hosts %s%s (start a node that calls Host%s)", kind, others, kind), false
	}
	return c.reasons.Lately(kind, now), true
}
