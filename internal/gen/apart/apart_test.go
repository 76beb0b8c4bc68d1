package apart

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/gen/apart/bill"
	"github.com/shardgen/shardgen/internal/gen/apart/billapi"
	"github.com/shardgen/shardgen/internal/gen/apart/order"
	"github.com/shardgen/shardgen/internal/gen/apart/orderapi"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestApart calls an order and a bill from their node and from outside, and lets each call the
// other.
func TestApart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	broker := memory.NewBroker(memory.Options{})
	config := func(name string) shard.Config {
		return shard.Config{
			Cluster: "apart", Name: name, Transport: broker.Transport(),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
	}
	node := shard.New(config("node"))
	err := errors.Join(
		order.HostOrder(node, func() *order.Order { return &order.Order{Bills: billapi.NewBillClient(node)} }),
		bill.HostBill(node, func() *bill.Bill { return &bill.Bill{Orders: orderapi.NewOrderClient(node).API} }),
	)
	if err != nil {
		t.Fatal(err)
	}
	stale := orderapi.DescribeOrder()
	stale.Struct, stale.Exported = (*order.Order)(nil), 1
	if err := shard.New(config("stale")).Host(stale); err == nil || !strings.Contains(err.Error(), "has 2 exported methods, but had 1") {
		t.Errorf("host of an entity that got a method: %v", err)
	}
	if err := node.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	conn, err := shard.Dial(ctx, config("client"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	lines := []orderapi.Line{{SKU: "tea", Price: 3}, {SKU: "pot", Price: 20}}
	for _, from := range []struct {
		name   string
		caller shard.Caller
		total  int64 // of the bill, which all orders share
	}{{"node", node, 23}, {"outside", conn, 23 + 3 + 23}} {
		orders, bills := orderapi.NewOrderClient(from.caller), billapi.NewBillClient(from.caller)
		place := orderapi.PlaceOrder{Order: orderapi.ID("by " + from.name), Lines: lines}
		if total, err := orders.For(place).Place(ctx, place); err != nil || total != from.total {
			t.Errorf("%s: Place: total %d, %v; want %d", from.name, total, err, from.total)
		}
		if owed, err := bills.Ref("other").Check(ctx, place.Order); err != nil || owed != 23 {
			t.Errorf("%s: Check: owed %d, %v; want 23", from.name, owed, err)
		}
		place.Lines, place.Gift = lines[:1], true
		if err := orders.Deliver(ctx, place); err != nil {
			t.Errorf("%s: Deliver: %v", from.name, err)
		}
		got, gift, err := orders.Ref(place.Order).Show(ctx)
		if want := append(slices.Clone(lines), lines[0]); err != nil || !gift || !slices.Equal(got, want) {
			t.Errorf("%s: Show: %v, gift %v, %v; want %v, a gift", from.name, got, gift, err, want)
		}
		// The caller of one entity can test for a declared error of the other.
		place.Lines = nil
		var entity *shard.EntityError
		if err := orders.Deliver(ctx, place); !errors.Is(err, orderapi.ErrEmpty) || !errors.As(err, &entity) || shard.OutcomeOf(err) != shard.Executed {
			t.Errorf("%s: an empty order: got %v, want it to be ErrEmpty", from.name, err)
		}
		if err := bills.Ref("other").Repeat(ctx, place); !errors.Is(err, orderapi.ErrEmpty) || shard.OutcomeOf(err) != shard.Executed {
			t.Errorf("%s: an empty order, repeated: got %v, want it to be ErrEmpty", from.name, err)
		}
	}

	id, err := orderapi.OrderExtractor{}.EntityIDOf(orderapi.PlaceOrder{Order: "a"})
	if err != nil || id != "a" {
		t.Errorf("EntityIDOf = %q, %v; want a", id, err)
	}
	of, err := orderapi.OrderExtractor{}.ShardOf(orderapi.PlaceOrder{Order: "a"})
	if want, _ := (orderapi.OrderExtractor{}).Shard("a"); err != nil || of != want {
		t.Errorf("ShardOf = %d, %v; want %d", of, err, want)
	}
	if _, err := (orderapi.OrderExtractor{}).EntityIDOf(orderapi.PlaceOrder{}); err == nil {
		t.Error("EntityIDOf of a message without an id: no error")
	}
}
