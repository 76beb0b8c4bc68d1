package shard_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// A mute is a store that publishes, but loses the acknowledgements.
type mute struct {
	*natsstore.Store
	published atomic.Int64
}

func (m *mute) Publish(ctx context.Context, msg store.Message) error {
	if err := m.Store.Publish(ctx, msg); err != nil {
		return err
	}
	m.published.Add(1)
	return store.ErrUncertain
}

// TestPublishedOnceOnJetStream: a home ends after it has published messages, before their
// acknowledgements. The next home publishes the messages again, after the stream's duplicate
// window. Each message is in the stream once, in order.
func TestPublishedOnceOnJetStream(t *testing.T) {
	t.Parallel()
	const window = 100 * time.Millisecond // the shortest that nats-server takes
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	nc, err := nats.Connect(server.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.CreateStream(testContext(t), jetstream.StreamConfig{Name: "TOTALS", Subjects: []string{"total.>"}, Duplicates: window})
	require.NoError(t, err)
	backend, err := natsstore.Open(testContext(t), server.URL(), natsstore.Config{Name: "test"})
	require.NoError(t, err)
	t.Cleanup(backend.Close)

	v := newWallets(t)
	lost := &mute{Store: backend}
	var used store.Backend = lost
	v.tune = func(cfg *shard.Config) { cfg.Store = used }
	a := v.start("a")
	const entities = 5
	for i := range entities * 2 {
		id := fmt.Sprint("v", i%entities)
		_, err := ref(a, id).Announce(testContext(t), "total."+id, 1)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return lost.published.Load() >= entities }, testPatience, time.Millisecond)
	v.kill("a")
	<-time.After(2 * window)

	used = backend
	b := v.start("b")
	for i := range entities {
		id := fmt.Sprint("v", i)
		_, err := ref(b, id).Announce(testContext(t), "total."+id, 1)
		require.NoError(t, err)
	}
	has := func() (n uint64) {
		info, err := stream.Info(testContext(t))
		require.NoError(t, err)
		return info.State.Msgs
	}
	require.Eventually(t, func() bool { return has() >= 3*entities }, testPatience, 10*time.Millisecond)
	found := map[string][]string{}
	for seq := range has() {
		m, err := stream.GetMsg(testContext(t), seq+1)
		require.NoError(t, err)
		found[m.Subject] = append(found[m.Subject], string(m.Data))
	}
	for i := range entities {
		require.Equal(t, []string{"1", "2", "3"}, found[fmt.Sprint("total.v", i)])
	}
}
