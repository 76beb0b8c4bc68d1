package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/bench/load"
	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/e2e/baseline"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natsstream "github.com/shardgen/shardgen/stream/nats"
)

const (
	streamed         = "STREAMED"
	streamEntities   = 10_000
	streamPartitions = 4
)

// streams measures how fast durable entities apply the messages of a stream. It compares this with
// a consumer that only acknowledges, and with a worker that acknowledges each message after writing
// the message's effect by compare-and-set. -entities is the number of messages.
func streams(ctx context.Context, s settings, _ string) error {
	folder, err := os.MkdirTemp("", "shardgen-table-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	server, err := natsproc.Run("-js", "-sd", folder)
	if err != nil {
		return err
	}
	defer func() { _ = server.Kill() }()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return err
	}
	if err := fillStream(ctx, js, s.entities); err != nil {
		return err
	}
	for round := range s.rounds {
		bare, err := baseline.Acknowledged(ctx, js, streamed, func() (int, error) { return s.entities, nil })
		if err != nil {
			return err
		}
		by, err := baseline.OneByOne(ctx, js, streamed, func(m jetstream.Msg) string { return string(m.Data()) }, s.entities, s.time)
		if err != nil {
			return err
		}
		own, cpu, err := consumed(ctx, server, "r"+strconv.Itoa(round), s.entities)
		if err != nil {
			return err
		}
		fmt.Printf("| %d messages of a stream to %d durable entities, %d partitions | %.0f/s | AckExplicit %.0f/s (%.2f×), one by one %.0f/s (%.1f×) | ≥ 0.5×, ≥ 1.5× |\n| its processor time, in the process | %v | | |\n",
			s.entities, streamEntities, streamPartitions, own, bare, own/bare, by, own/by, cpu)
	}
	return nil
}

func fillStream(ctx context.Context, js jetstream.JetStream, n int) error {
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: streamed, Subjects: []string{"streamed.*"}}); err != nil {
		return err
	}
	for i := range n {
		e := i * 7919 % streamEntities
		_, err := js.PublishAsync(fmt.Sprintf("streamed.%d", e%streamPartitions), fmt.Appendf(nil, "v%d", e))
		if err != nil {
			return err
		}
	}
	<-js.PublishAsyncComplete()
	return nil
}

func consumed(ctx context.Context, server *natsproc.Server, cluster string, n int) (perSecond float64, cpu time.Duration, err error) {
	url := server.URL()
	backend, err := natsstore.Open(ctx, url, natsstore.Config{Name: cluster})
	if err != nil {
		return 0, 0, err
	}
	defer backend.Close()
	cfg := natsstream.Config{Stream: streamed}
	for i := range streamPartitions {
		cfg.Subjects = append(cfg.Subjects, fmt.Sprintf("streamed.%d", i))
	}
	source, err := natsstream.Open(ctx, url, cfg)
	if err != nil {
		return 0, 0, err
	}
	defer source.Close()
	c := process.Config(url, cluster, "n1")
	c.Store = backend
	node := shard.New(c)
	wallets := bank.NewWalletClient(node)
	err = errors.Join(
		bank.HostWallet(node, func() *bank.Wallet { return &bank.Wallet{} }, shard.IdleAfter(0)),
		shard.Consume(node, "bench", source, func(ctx context.Context, m shard.Message) error {
			return wallets.Tell(string(m.Data)).Put(ctx, 1)
		}),
	)
	before := load.CPUTime()
	begin := time.Now()
	if err == nil {
		err = node.Start(ctx)
	}
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = node.Shutdown(ctx) }()
	for {
		left := n
		for p := range streamPartitions {
			r, _, err := feeds.LoadRecord(ctx, backend, "bench", p)
			if err != nil {
				return 0, 0, err
			}
			if r.Position+streamPartitions > uint64(n) && r.Waiting == 0 {
				left -= n / streamPartitions
			}
		}
		if left <= 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return float64(n) / time.Since(begin).Seconds(), (load.CPUTime() - before) / time.Duration(n), nil
}
