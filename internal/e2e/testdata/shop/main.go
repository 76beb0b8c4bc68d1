// Command shop runs a worker of the shop, or buys in it:
//
//	shop worker URL NAME
//	shop buy URL
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/shop/shop"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "worker":
		go func() { // the parent is gone
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		err = worker(ctx, os.Args[2], os.Args[3])
	case len(os.Args) == 3 && os.Args[1] == "buy":
		err = buy(ctx, os.Args[2])
	default:
		err = errors.New("usage: shop worker URL NAME, or shop buy URL")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func worker(ctx context.Context, url, name string) error {
	node := shard.New(shard.Config{Cluster: "shop", Name: name, Transport: natstransport.New(url)})
	if err := shop.Host(node); err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	fmt.Println(`{"event":"up"}`)
	<-ctx.Done()
	return node.Shutdown(context.Background())
}

const (
	articles = 50
	orders   = 50
	pieces   = 10
)

func sku(i int) shop.SKU       { return shop.SKU(fmt.Sprintf("article %d", i%articles)) }
func order(i int) shop.OrderID { return shop.OrderID(fmt.Sprintf("order.%d", i)) }

// buy calls entities of both types and checks each answer.
func buy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, err := shard.Dial(ctx, shard.Config{Cluster: "shop", Transport: natstransport.New(url)})
	if err != nil {
		return err
	}
	defer conn.Close()
	stocks, orders := shop.NewStockClient(conn), shop.NewOrderClient(conn)
	for _, step := range []func(context.Context, *shop.StockClient, *shop.OrderClient) error{restock, buyAll, soldOut, recall, circle} {
		if err := step(ctx, stocks, orders); err != nil {
			return err
		}
	}
	fmt.Println("all is well")
	return nil
}

// restock tells a stock and then calls it. The call must find the tell done, because the calls of
// one sender keep their order.
func restock(ctx context.Context, stocks *shop.StockClient, _ *shop.OrderClient) error {
	for i := range articles {
		if err := stocks.Tell(sku(i)).Restock(ctx, pieces); err != nil {
			return err
		}
		left, err := stocks.Ref(sku(i)).Release(ctx, "nobody's")
		if err != nil || left != pieces {
			return fmt.Errorf("restock %s: %d left, %v; want %d", sku(i), left, err, pieces)
		}
	}
	return nil
}

func buyAll(ctx context.Context, _ *shop.StockClient, clients *shop.OrderClient) error {
	for i := range orders {
		left, err := clients.Ref(order(i)).Buy(ctx, sku(i), sku(i+1), sku(i+2))
		if err != nil || len(left) != 3 {
			return fmt.Errorf("buy %s: left %v, %v; want three articles", order(i), left, err)
		}
	}
	for i := range orders {
		lines, err := clients.Ref(order(i)).Show(ctx)
		want := map[shop.SKU]int64{sku(i): 1, sku(i + 1): 1, sku(i + 2): 1}
		if err != nil || !maps.Equal(lines, want) {
			return fmt.Errorf("show %s: %v, %v; want %v", order(i), lines, err, want)
		}
	}
	return nil
}

// soldOut checks that a method's error passes through two entities.
func soldOut(ctx context.Context, stocks *shop.StockClient, orders *shop.OrderClient) error {
	_, err := orders.Ref("late").Buy(ctx, "nothing of it")
	var entity *shard.EntityError
	if !errors.As(err, &entity) || entity.Kind != "Order" || !strings.Contains(err.Error(), "sold out") {
		return fmt.Errorf("buy what is sold out: %v; want an entity's error", err)
	}
	if got := shard.OutcomeOf(err); got != shard.Executed {
		return fmt.Errorf("outcome of what is sold out: %v; want %v", got, shard.Executed)
	}
	return nil
}

// recall checks that a stock can call orders.
func recall(ctx context.Context, stocks *shop.StockClient, orders *shop.OrderClient) error {
	recalled, err := stocks.Ref(sku(2)).Recall(ctx)
	want := []shop.OrderID{order(0), order(1), order(2)}
	slices.Sort(recalled)
	if err != nil || !slices.Equal(recalled, want) {
		return fmt.Errorf("recall: %v, %v; want %v", recalled, err, want)
	}
	for _, id := range want {
		lines, err := orders.Ref(id).Show(ctx)
		if _, has := lines[sku(2)]; err != nil || has || len(lines) != 2 {
			return fmt.Errorf("show %s after the recall: %v, %v; want two lines without %s", id, lines, err, sku(2))
		}
	}
	return nil
}

// circle checks the refusal of a circular call: an order calls a stock, which calls the waiting
// order.
func circle(ctx context.Context, _ *shop.StockClient, orders *shop.OrderClient) error {
	id := order(10)
	err := orders.Ref(id).Undo(ctx, sku(10))
	if err == nil || !strings.Contains(err.Error(), "circular call") {
		return fmt.Errorf("undo %s: %v; want a circular call, refused", id, err)
	}
	for _, link := range []string{"Order/" + string(id), "Stock/" + string(sku(10))} {
		if !strings.Contains(err.Error(), link) {
			return fmt.Errorf("undo %s: %v; want %s in the chain", id, err, link)
		}
	}
	return nil
}
