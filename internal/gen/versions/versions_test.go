package versions

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/gen/versions/today"
	"github.com/shardgen/shardgen/internal/gen/versions/yesterday"
	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// cluster starts one node over NATS, and returns a connection from outside the cluster.
func cluster(t *testing.T, host func(*shard.Node) error) *shard.Conn {
	t.Helper()
	server, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	config := func(name string) shard.Config {
		return shard.Config{
			Cluster: "versions", Name: name, Transport: natstransport.New(server.ClientURL()),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
	}
	node := shard.New(config("node"))
	if err := host(node); err != nil {
		t.Fatal(err)
	}
	if err := node.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	conn, err := shard.Dial(within(t), config("client"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// members returns a function that starts nodes of one cluster, in memory and with one store.
func members(t *testing.T) (start func(name string, host func(*shard.Node) error) *shard.Node) {
	broker, store := memory.NewBroker(memory.Options{}), memorystore.New()
	return func(name string, host func(*shard.Node) error) *shard.Node {
		n := shard.New(shard.Config{Cluster: "versions", Name: name, Transport: broker.Transport(), Store: store.Client(), Logger: slog.New(slog.DiscardHandler)})
		ok(t, "host", host(n))
		if err := n.Start(within(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestYesterdayCallsToday calls today's entities by yesterday's clients.
func TestYesterdayCallsToday(t *testing.T) {
	conn := cluster(t, func(n *shard.Node) error {
		return today.HostStock(n, func() *today.Stock { return &today.Stock{} })
	})
	ref := yesterday.NewStockClient(conn).Ref("tea")
	ok(t, "Restock", ref.Restock(within(t), 5))
	left, err := ref.Reserve(within(t), "o1", yesterday.Line{SKU: "tea", Count: 2, Note: "soon"})
	ok(t, "Reserve", err)
	equal(t, "left", left, int32(3))
	lines, err := ref.Orders(within(t))
	ok(t, "Orders", err)
	equal(t, "lines", lines, []yesterday.Line{{SKU: "tea", Count: 2}})

	_, err = ref.Reserve(within(t), "o2", yesterday.Line{Count: 9})
	if !errors.Is(err, yesterday.ErrSoldOut) || shard.OutcomeOf(err) != shard.Executed {
		t.Errorf("got %v, want it to be ErrSoldOut", err)
	}
	if err := ref.Old(within(t)); !errors.Is(err, shard.ErrNoMethod) || shard.OutcomeOf(err) != shard.NotExecuted {
		t.Errorf("a message that is gone: got %v, want ErrNoMethod, not executed", err)
	}

	// A number that is too wide for yesterday's is refused there, not cut.
	wide := int64(math.MaxInt32) + 10
	ok(t, "wide Restock", today.NewStockClient(conn).Ref("wide").Restock(within(t), &wide))
	if left, err := yesterday.NewStockClient(conn).Ref("wide").Reserve(within(t), "o", yesterday.Line{Count: 1}); err == nil {
		t.Errorf("got %d pieces left, want an error: it does not fit", left)
	}
}

// TestTodayCallsYesterday calls yesterday's entities by today's clients.
func TestTodayCallsYesterday(t *testing.T) {
	conn := cluster(t, func(n *shard.Node) error {
		return yesterday.HostStock(n, func() *yesterday.Stock { return &yesterday.Stock{} })
	})
	ref := today.NewStockClient(conn).Ref("tea")
	five := int64(5)
	ok(t, "Restock", ref.Restock(within(t), &five))
	ok(t, "Restock without a number", ref.Restock(within(t), nil))
	by, left, err := ref.Take(within(t), "ann", "o1", today.Line{Gift: true, Article: "tea", Count: 2})
	ok(t, "Take", err)
	equal(t, "by", by, "") // yesterday's does not know it
	equal(t, "left", left, int64(3))
	lines, err := ref.Orders(within(t))
	ok(t, "Orders", err)
	equal(t, "lines", lines, []today.Line{{Article: "tea", Count: 2}})

	if _, _, err = ref.Take(within(t), "ann", "o2", today.Line{Count: 9}); !errors.Is(err, today.ErrEmpty) {
		t.Errorf("got %v, want it to be ErrEmpty", err)
	}
	if err := ref.New(within(t)); !errors.Is(err, shard.ErrNoMethod) || shard.OutcomeOf(err) != shard.NotExecuted {
		t.Errorf("a message that is not there yet: got %v, want ErrNoMethod, not executed", err)
	}
	_, _, err = ref.Take(within(t), "ann", "o3", today.Line{Count: math.MaxInt32 + 1})
	if !errors.Is(err, shard.ErrBadArgs) || shard.OutcomeOf(err) != shard.NotExecuted {
		t.Errorf("a number that does not fit: got %v, want ErrBadArgs, not executed", err)
	}
}
