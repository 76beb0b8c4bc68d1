package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/examples/auction/front"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natsstream "github.com/shardgen/shardgen/stream/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

const (
	cluster  = "auction"
	payments = "PAYMENTS" // the incoming stream
	mails    = "MAILS"    // the outgoing stream
)

// roles are what a process can be. A role gets two arguments, and calls up() when it works. It
// returns when ctx ends or it fails, and is then restarted.
var roles = map[string]func(ctx context.Context, args []string, log *slog.Logger, up func()) error{
	"nats":   runNATS,   // PORT DIR
	"worker": runWorker, // URL NAME
	"front":  runFront,  // URL ADDRESS
}

// child runs a role until stdin is closed, because then the process that started it has ended.
func child(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: a read cannot be taken back
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	return roles[args[0]](ctx, args[1:3], slog.New(slog.NewTextHandler(stderr, nil)), func() { fmt.Fprintln(stdout, "up") })
}

func runNATS(ctx context.Context, args []string, log *slog.Logger, up func()) error {
	port, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	server, err := embedded.Start(embedded.Options{Port: port, StoreDir: args[1], Logger: log})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	up()
	<-ctx.Done()
	return nil
}

func runWorker(ctx context.Context, args []string, log *slog.Logger, up func()) error {
	url, name := args[0], args[1]
	store, err := natsstore.Open(ctx, url, natsstore.Config{Name: cluster})
	if err != nil {
		return err
	}
	defer store.Close()
	source, err := natsstream.Open(ctx, url, natsstream.Config{Stream: payments})
	if err != nil {
		return err
	}
	defer source.Close()
	node := shard.New(shard.Config{Cluster: cluster, Name: name, Transport: natstransport.New(url), Store: store, Logger: log})
	_ = auction.Host(node) // Start returns its error, and the next one's
	_ = auction.HostPayments(node, source)
	if err := node.Start(ctx); err != nil {
		return err
	}
	up()
	select {
	case <-ctx.Done():
		return node.Close()
	case <-node.Done():
		return node.Err()
	}
}

func runFront(ctx context.Context, args []string, log *slog.Logger, up func()) error {
	url, address := args[0], args[1]
	conn, err := shard.Dial(ctx, shard.Config{Cluster: cluster, Transport: natstransport.New(url), Logger: log})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	f := front.New(conn)
	live, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectHandler(func(*nats.Conn) { f.Missed() }))
	if err != nil {
		return err
	}
	defer live.Close()
	if _, err := live.Subscribe(auction.Live, func(m *nats.Msg) { f.Changed(string(m.Data)) }); err != nil {
		return err
	}
	var serving sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer serving.Wait()
	defer cancel()
	serving.Go(func() { f.Run(ctx) })
	server := &http.Server{Handler: f, ReadHeaderTimeout: 5 * time.Second}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	serving.Go(func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(last) // requests under way are answered
		_ = server.Close()
	})
	up()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}
