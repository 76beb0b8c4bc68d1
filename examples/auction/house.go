package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

const workers = 3

// A house has all processes of an auction house.
type house struct {
	load    time.Duration
	listen  string
	verbose bool
	stderr  io.Writer

	url     string // of the NATS server
	front   string // a URL
	server  *process
	workers []*process
	web     *process
	running sync.WaitGroup
}

// start starts everything; stop ends everything.
func (h *house) start(ctx context.Context, dir string) (nc *nats.Conn, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	stop = func() {
		cancel()
		h.running.Wait()
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	address := h.listen
	if address == "" {
		port, err := freePort()
		if err != nil {
			return nil, nil, err
		}
		address = fmt.Sprint("127.0.0.1:", port)
	}
	h.url, h.front = fmt.Sprint("nats://127.0.0.1:", port), "http://"+address
	if address[0] == ':' {
		h.front = "http://127.0.0.1" + address
	}
	if h.server, err = h.launch(ctx, "the NATS server", "nats", fmt.Sprint(port), dir, "-"); err != nil {
		return nil, nil, err
	}
	nc, err = nats.Connect(h.url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	if err := h.makeStreams(ctx, nc); err != nil {
		return nil, nil, err
	}
	for i := range workers {
		name := fmt.Sprint("worker-", i+1)
		p, err := h.launch(ctx, name, "worker", h.url, name, "-")
		if err != nil {
			return nil, nil, err
		}
		h.workers = append(h.workers, p)
	}
	h.web, err = h.launch(ctx, "the front", "front", h.url, address, "-")
	return nc, stop, err
}

// launch starts a process, and returns when the process has reported that it works.
func (h *house) launch(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{name: name, args: args, logs: io.Discard}
	if h.verbose {
		p.logs = h.stderr
	}
	h.running.Go(func() { p.run(ctx) })
	for p.ups.Load() == 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("start %s: %w", name, context.Cause(ctx))
		case <-time.After(30 * time.Second):
			return nil, fmt.Errorf("start %s: it does not work after 30s (run it with -v)", name)
		}
	}
	return p, nil
}

func (h *house) makeStreams(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for name, subject := range map[string]string{payments: "payments.*", mails: "mails.*"} {
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			return err
		}
	}
	return nil
}

// run makes the load while everything is killed, and returns the books.
func (h *house) run(ctx context.Context, dir string) (books, error) {
	nc, stop, err := h.start(ctx, dir)
	if err != nil {
		return books{}, err
	}
	defer stop()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return books{}, err
	}
	conn, err := shard.Dial(ctx, shard.Config{Cluster: cluster, Name: "books", Transport: natstransport.New(h.url), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return books{}, err
	}
	defer func() { _ = conn.Close() }()
	l := newLoad(h.front, js, fast)
	loading, enough := context.WithTimeout(ctx, h.load)
	defer enough()
	loaded := make(chan error, 1)
	go func() { loaded <- l.run(ctx, loading) }() // received below, or ctx has ended
	away, err := h.killAll(ctx)
	if failed := <-loaded; failed != nil || err != nil {
		if failed != nil {
			err = failed
		}
		return books{}, err
	}
	l.books.away = away
	fmt.Fprintf(h.stderr, "the load is over: %d auctions, %d requests repeated\n", len(l.books.bids), l.books.again)
	return settle(ctx, l.books, conn, js)
}

// killAll kills each process once and then all workers together, spread over the time of the load.
// It returns the times without a server or any worker, in which nobody could close auctions.
func (h *house) killAll(ctx context.Context) (away []span, err error) {
	steps := [][]*process{{h.workers[0]}, {h.workers[1]}, {h.workers[2]}, {h.web}, {h.server}, h.workers}
	next := time.NewTicker(h.load / time.Duration(len(steps)+1))
	defer next.Stop()
	for _, victims := range steps {
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s, err := restart(ctx, victims...)
		if err != nil {
			return nil, err
		}
		name := victims[0].name
		if len(victims) > 1 {
			name = "each worker"
		}
		fmt.Fprintf(h.stderr, "%s was killed, and works again after %v\n", name, s.to.Sub(s.from).Round(time.Millisecond))
		if len(victims) > 1 || victims[0] == h.server {
			away = append(away, s)
		}
	}
	return away, nil
}

// settle reads the books until they balance, for at most half a minute, and once more a second later,
// to find effects that come twice.
func settle(ctx context.Context, b books, conn *shard.Conn, js jetstream.JetStream) (books, error) {
	patience := time.After(30 * time.Second)
	for settled := false; ; {
		err := b.read(ctx, conn, js)
		balanced := err == nil && len(b.check().wrong) == 0
		if settled && err == nil {
			return b, nil
		}
		wait := 200 * time.Millisecond
		if settled = balanced; settled {
			wait = time.Second
		}
		select {
		case <-time.After(wait):
		case <-patience:
			return b, err
		case <-ctx.Done():
			return b, context.Cause(ctx)
		}
	}
}

// read fills b with the effects of the requests: it asks all entities, and reads all mails.
func (b *books) read(ctx context.Context, conn *shard.Conn, js jetstream.JetStream) error {
	auctions, users, paid := auction.NewAuctionClient(conn), auction.NewUserClient(conn), auction.NewPaymentClient(conn)
	b.auctions, b.users, b.received, b.mails = map[string]auction.View{}, map[string]auction.Account{}, map[string]int64{}, nil
	var err error
	for id := range b.bids {
		if b.auctions[id], err = auctions.Ref(id).Show(ctx); err != nil {
			return err
		}
	}
	for id := range b.sent {
		if b.received[id], err = paid.Ref(id).Count(ctx); err != nil {
			return err
		}
	}
	for i := range bidders {
		if b.users[bidderName(i)], err = users.Ref(bidderName(i)).Statement(ctx); err != nil {
			return err
		}
	}
	for i := range sellers {
		if b.users[sellerName(i)], err = users.Ref(sellerName(i)).Statement(ctx); err != nil {
			return err
		}
	}
	b.mails, err = readMails(ctx, js)
	return err
}

func readMails(ctx context.Context, js jetstream.JetStream) (all []mail, err error) {
	stream, err := js.Stream(ctx, mails)
	if err != nil {
		return nil, err
	}
	last := stream.CachedInfo().State.LastSeq
	reader, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	messages, err := reader.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for seq := uint64(0); seq < last; {
		next, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := next.Metadata()
		if err != nil {
			return nil, err
		}
		m := mail{subject: next.Subject(), at: meta.Timestamp}
		if err := json.Unmarshal(next.Data(), &m.Mail); err != nil {
			return nil, err
		}
		all, seq = append(all, m), meta.Sequence.Stream
	}
	return all, nil
}

// serve runs the house for people to watch, without kills, until ctx ends.
func (h *house) serve(ctx context.Context, dir string) error {
	nc, stop, err := h.start(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	fmt.Fprintf(h.stderr, "look at %s; bidder-1 to bidder-%d have money\n", h.front, bidders)
	if err := newLoad(h.front, js, visible).run(ctx, ctx); ctx.Err() == nil {
		return err
	}
	return nil
}
