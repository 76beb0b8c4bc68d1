package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	memorystream "github.com/shardgen/shardgen/stream/memory"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestFeedAfterImport: after an import, a feed that is rewound before a member starts applies the
// messages that the export lacks, and no other. import names the feed.
func TestFeedAfterImport(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl, s, source := shardctlAt(t, url), openStore(t, url), memorystream.New(1)
	start := func() (wallets *bank.WalletClient, stop func()) {
		n := shard.New(shard.Config{
			Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		t.Cleanup(func() { _ = n.Close() })
		wallets = bank.NewWalletClient(n)
		require.NoError(t, errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
			shard.Consume(n, "paid", source, func(ctx context.Context, m shard.Message) error {
				return wallets.Tell(m.Subject).Put(ctx, 1)
			})))
		require.NoError(t, n.Start(t.Context()))
		return wallets, func() { require.NoError(t, n.Shutdown(t.Context())) }
	}
	read := func(position uint64) {
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			r, _, err := feeds.LoadRecord(context.Background(), s, "paid", 0)
			assert.NoError(t, err)
			assert.Equal(t, position, r.Position)
			assert.Zero(t, r.Waiting)
		}, 30*time.Second, 50*time.Millisecond)
	}
	publish := func() {
		for range 3 {
			source.Publish(0, "ann", nil)
		}
	}
	_, stop := start()
	publish()
	read(4)
	stop()
	file := filepath.Join(t.TempDir(), "all.json")
	ctl("store export -o "+file, exitOK, "", "")
	_, stop = start()
	publish()
	read(7)
	stop()
	ctl("store delete Wallet -force", exitOK, "", "")
	ctl("store import -from "+file, exitOK, "run shardctl rewind paid -to 1 before a member starts", "")
	ctl("rewind paid -to 1", exitOK, "partition 0 of paid is read from 1 on", "")
	wallets, stop := start()
	defer stop()
	source.Publish(0, "ann", nil)
	read(8)
	got, err := wallets.Ref("ann").Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(7), got)
}
