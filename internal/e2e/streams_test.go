package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natsstream "github.com/shardgen/shardgen/stream/nats"
)

// A reading is a stream that nodes of this process read for wallets. A message to the subject in.ID is
// stashed by the wallet ID.
type reading struct {
	t       *testing.T
	url     string
	js      jetstream.JetStream
	store   *natsstore.Store
	wallets *bank.WalletClient // of the last node
}

func newReading(t *testing.T, cfg jetstream.StreamConfig) *reading {
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	nc, err := nats.Connect(server.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	r := &reading{t: t, url: server.URL(), js: js}
	r.make(cfg)
	r.store = openStore(t, r.url, natsstore.Config{Name: "bank"}).(*natsstore.Store)
	return r
}

func (r *reading) make(cfg jetstream.StreamConfig) jetstream.Stream {
	r.t.Helper()
	cfg.Name, cfg.Subjects = "IN", []string{"in.*"}
	s, err := r.js.CreateStream(r.t.Context(), cfg)
	require.NoError(r.t, err)
	return s
}

// start starts a node that reads. The node calls hold for each message.
func (r *reading) start(name string, hold func(ctx context.Context) error) *shard.Node {
	r.t.Helper()
	source, err := natsstream.Open(r.t.Context(), r.url, natsstream.Config{Stream: "IN"})
	require.NoError(r.t, err)
	r.t.Cleanup(source.Close)
	n := walletNode(r.t, r.url, name, openStore(r.t, r.url, natsstore.Config{Name: "bank"}))
	r.wallets = bank.NewWalletClient(n)
	wallets := r.wallets
	require.NoError(r.t, shard.Consume(n, "in", source, func(ctx context.Context, m shard.Message) error {
		return errors.Join(hold(ctx), wallets.Tell(strings.TrimPrefix(m.Subject, "in.")).Stash(ctx, m.Data))
	}))
	require.NoError(r.t, starts(r.t, n))
	return n
}

func holdNothing(context.Context) error { return nil }

func (r *reading) publish(id string, size int) {
	r.t.Helper()
	_, err := r.js.Publish(r.t.Context(), "in."+id, make([]byte, size))
	require.NoError(r.t, err)
}

func (r *reading) record() feeds.Record {
	r.t.Helper()
	record, _, err := feeds.LoadRecord(r.t.Context(), r.store, "in", 0)
	require.NoError(r.t, err)
	return record
}

// has waits until a wallet has the total want.
func (r *reading) has(id string, want int64) {
	r.t.Helper()
	var total int64
	var err error
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s has %d, %v, want %d; the record is %+v", id, total, err, want, r.record())
		}
	}()
	await(r.t.Context(), r.t, id+" has its total", func() bool {
		total, err = r.wallets.Ref(id).Get(r.t.Context())
		return err == nil && total >= want
	})
	require.Equal(r.t, want, total, id)
}

// TestStreamOfLargeMessages: a message as large as the server allows does not fit into a call. It
// does not delay other messages, and the record of the feed says why the large message waits.
func TestStreamOfLargeMessages(t *testing.T) {
	r := newReading(t, jetstream.StreamConfig{})
	r.start("n1", holdNothing)
	r.start("n2", holdNothing)
	const most = 1 << 20
	for i := range 20 {
		r.publish(fmt.Sprint("large", i), most-len("in.large10"))
	}
	for i := range 20 {
		r.publish(fmt.Sprint("small", i), 7)
	}
	for i := range 20 {
		r.has(fmt.Sprint("small", i), 7)
	}
	await(t.Context(), t, "the record says why it waits", func() bool {
		failing := r.record().Failing
		return len(failing) > 0 && strings.Contains(failing[0].Why, "too large")
	})
}

// TestStreamExpires: messages that expire before they are read are counted once, however often
// nodes begin to read.
func TestStreamExpires(t *testing.T) {
	r := newReading(t, jetstream.StreamConfig{MaxAge: time.Second})
	n := r.start("n1", holdNothing)
	r.publish("a", 1)
	r.has("a", 1)
	await(t.Context(), t, "the position is stored", func() bool { return r.record().Position == 2 })
	require.NoError(t, n.Shutdown(t.Context()))
	for range 5 {
		r.publish("a", 1)
	}
	state := func() jetstream.StreamState {
		s, err := r.js.Stream(t.Context(), "IN")
		require.NoError(t, err)
		return s.CachedInfo().State
	}
	consumers := func() int { return state().Consumers }
	await(t.Context(), t, "the messages have expired", func() bool { return state().Msgs == 0 && consumers() == 0 })
	for i := range 2 { // they find nothing
		n = r.start(fmt.Sprint("n", i+2), holdNothing)
		await(t.Context(), t, "it reads", func() bool { return consumers() == 1 })
		require.NoError(t, n.Shutdown(t.Context()))
		await(t.Context(), t, "it does not read", func() bool { return consumers() == 0 })
	}
	r.start("n4", holdNothing)
	r.publish("a", 1)
	r.has("a", 2)
	await(t.Context(), t, "the position is stored", func() bool { return r.record().Position == 8 })
	require.EqualValues(t, 5, r.record().Missed)
}

// TestStreamIsPurgedAndRemade: while a node reads, the stream is purged, and later deleted and made
// again. Messages before and after are applied once.
func TestStreamIsPurgedAndRemade(t *testing.T) {
	r := newReading(t, jetstream.StreamConfig{})
	held, read := make(chan struct{}), make(chan struct{}, 10_000)
	r.start("n1", func(ctx context.Context) error {
		read <- struct{}{}
		select {
		case <-held:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	r.publish("a", 1)
	<-read
	for range 5000 { // more than were requested from the server
		_, err := r.js.PublishAsync("in.a", []byte{1})
		require.NoError(t, err)
	}
	<-r.js.PublishAsyncComplete()
	s, err := r.js.Stream(t.Context(), "IN")
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context()))
	r.publish("a", 1)
	close(held)
	await(t.Context(), t, "the position is stored", func() bool { return r.record().Position == 5003 })
	got, err := r.wallets.Ref("a").Get(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 5002, uint64(got)+r.record().Missed, "%d are applied, the others are counted", got)
	require.NotZero(t, r.record().Missed)

	require.NoError(t, r.js.DeleteStream(t.Context(), "IN"))
	r.make(jetstream.StreamConfig{})
	for range 6000 { // beyond the position in the old stream
		_, err := r.js.PublishAsync("in.b", []byte{1})
		require.NoError(t, err)
	}
	<-r.js.PublishAsyncComplete()
	r.has("b", 6000)
	await(t.Context(), t, "the position is stored", func() bool { return r.record().Position == 6001 })
	again, err := r.wallets.Ref("a").Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, got, again)
}

// TestStreamLetterOfAGoneMessage: a message that is given up becomes a dead letter even if the
// stream has deleted it. Such a dead letter cannot be requeued.
func TestStreamLetterOfAGoneMessage(t *testing.T) {
	for name, remove := range map[string]func(s jetstream.Stream) error{
		"purged":  func(s jetstream.Stream) error { return s.Purge(t.Context()) },
		"deleted": func(s jetstream.Stream) error { return s.DeleteMsg(t.Context(), 2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the reader waits for 6 s
			r := newReading(t, jetstream.StreamConfig{})
			read, broken := make(chan struct{}, 10), make(chan struct{})
			r.start("n1", func(context.Context) error {
				read <- struct{}{}
				if len(read) < 2 {
					return nil
				}
				<-broken
				return errors.New("broken")
			})
			r.publish("a", 1)
			r.has("a", 1)
			r.publish("a", 1)
			await(t.Context(), t, "the function has it", func() bool { return len(read) == 2 })
			s, err := r.js.Stream(t.Context(), "IN")
			require.NoError(t, err)
			require.NoError(t, remove(s))
			close(broken)
			await(t.Context(), t, "it is a dead letter", func() bool {
				all, err := feeds.Letters(t.Context(), r.store, "in")
				return err == nil && len(all) == 1
			})
			require.ErrorContains(t, feeds.Requeue(t.Context(), r.store, "in", "0-2048"), "has no data")
			require.NoError(t, feeds.Drop(t.Context(), r.store, "in", "0-2048"))
		})
	}
}
