package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/feed"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/stream"
)

// A Message is one message of a stream, for [Consume].
type Message = stream.Message

// Consume makes the cluster apply each message of a stream to durable entities. Call it before
// Start, at each node that should read, with the same name and source. The name is 1 to 64 letters,
// digits, _ and -. Config.Store keeps positions and dead letters under this name. Each partition is
// read at one node. When that node ends, another node reads the partition.
//
// fn turns a message into tells. It makes the tells with its ctx; the runtime sends them after fn
// has returned nil. With its ctx, fn may only tell entities of durable types, through clients made
// with this node; otherwise the message fails. fn must make the same tells whenever it gets the
// same message.
//
// Each tell is applied once and, per entity, in the order of the partition. The next tell to an
// entity is sent when the one before is committed. Reading of a partition waits while 1,024 of its
// tells, or 16 MiB of tells, are under way. While an entity cannot be reached or activated, its
// tells wait, without a deadline.
//
// A message is dead if fn returns an error or panics. A tell is dead if its method has panicked or
// refused its arguments at least 10 times over at least 5 minutes. An error that the method returns
// is a result, and does not make the tell dead. Dead messages and tells are kept as dead letters,
// and reading goes on.
func Consume(n *Node, name string, source stream.Source, fn func(ctx context.Context, m Message) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.consumeLocked(name, source, fn)
	if err != nil {
		n.hostErr = append(n.hostErr, err)
	}
	return err
}

func (n *Node) consumeLocked(name string, source stream.Source, fn func(ctx context.Context, m Message) error) error {
	fail := func(err error) error { return fmt.Errorf("consume %s: %w", clip(name), err) }
	switch {
	case source == nil || fn == nil:
		return fail(errors.New("the source or the function is nil"))
	case n.cfg.Store == nil:
		return fail(errors.New("Config.Store is nil (set it to the result of natsstore.Open: positions are kept there)"))
	case source.Partitions() < 1:
		return fail(fmt.Errorf("the source has %d partitions (want at least 1)", source.Partitions()))
	}
	kind := feedType(name)
	host := partsType(kind, "shardgen/feed", source.Partitions())
	if err := n.hostLocked(host, nil); err != nil {
		return fail(err)
	}
	f := feeds.New(feeds.Config{
		Name: name, Source: source, Store: n.cfg.Store, Host: feedHost{n.driver, name, fn},
		Node: n.cfg.Name, Context: n.driver.Context, Log: n.log, Dead: node.DeadBody(),
	})
	n.feeds = append(n.feeds, f)
	n.driver.Kind(host.Kind).Host.Parts = node.NewParts(n.driver, source.Partitions(), f.Read)
	return nil
}

// feedType returns the name of the type whose shards are a feed's partitions. The dash
// distinguishes it from users' types, whose names are Go identifiers by default.
func feedType(name string) string { return "feed-" + name }

// feedHost implements feeds.Host.
type feedHost struct {
	driver *node.Driver
	name   string
	fn     func(ctx context.Context, m Message) error
}

func (h feedHost) Map(ctx context.Context, m stream.Message) ([]durable.Tell, error) {
	return h.driver.MapTells(ctx, func(ctx context.Context) error { return h.fn(ctx, m) })
}

func (h feedHost) Send(ctx context.Context, partition int, tells []durable.Tell, id func(durable.Tell) durablehost.ID, then func([]durable.Tell, feed.Result, error)) {
	h.driver.SendCommands(ctx, fmt.Sprintf("%s/%d", feedType(h.name), partition), partition, tells, id, then)
}

func loadFeed(f *feeds.Feed) measure.Feed {
	c := &f.Counts
	return measure.Feed{
		Name: f.Name, Waiting: c.Waiting.Load(), Read: c.Read.Load(), Committed: c.Done.Load(), Failed: c.Failed.Load(),
		Dead: c.Dead.Load(), Missed: c.Missed.Load(),
	}
}
