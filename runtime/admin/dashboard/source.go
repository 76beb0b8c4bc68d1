package dashboard

import (
	"context"
	"iter"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

// A source answers questions about a cluster; an [admin.Client] is one.
type source interface {
	Members(ctx context.Context) (admin.View, error)
	Shards(ctx context.Context, kind string) ([]admin.NodeShards, error)
	Facts(ctx context.Context) ([]admin.NodeFact, error)
	Turns(ctx context.Context) ([]admin.NodeTurns, error)
	Counters(ctx context.Context) ([]admin.NodeCounters, error)
	Moves(ctx context.Context) ([]admin.Move, transport.Address, error)
	Where(ctx context.Context, kind, id string) (admin.Place, error)
	Inspect(ctx context.Context, kind, id string) (admin.Entity, error)
	State(ctx context.Context, kind, id string) (admin.Entity, error)
	Trends(ctx context.Context, after time.Time) ([]admin.NodeTrend, error)
	Feeds(ctx context.Context) ([]admin.Feed, error)
	Entities(ctx context.Context, kind string, l admin.Listing) iter.Seq2[string, error]
	Reminded(ctx context.Context, kind string, limit int) iter.Seq2[admin.Reminded, error]
	events() eventReader
}

type eventReader interface {
	Next(ctx context.Context) ([]admin.Event, error)
}

type client struct{ *admin.Client }

func (c client) events() eventReader { return c.Events() }
