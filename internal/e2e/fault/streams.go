package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/e2e/baseline"
	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/workload"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// streams lets nodes read a stream while the nodes or the server are killed, stopped or restarted
// in turn.
var streams = Fault{
	Name:     "streams",
	About:    "nodes that read a stream are killed, stopped for 15s and restarted in turn, one joins, and the NATS server is killed",
	Subject:  OnStreams,
	Nodes:    3,
	Servers:  1,
	Entities: 10_000,
	Rate:     5000,
	Times:    12,
	Length:   15 * time.Second,
	Limits:   Limits{Lost: 0, Doubled: 0},
}

// publish is the same fault as streams, but the entities also publish the messages that they get.
var publish = Fault{
	Name:     "publish",
	About:    "nodes whose entities publish in each turn are killed, stopped for 15s and restarted in turn, one joins, and the NATS server is killed",
	Subject:  OnStreams,
	Nodes:    3,
	Servers:  1,
	Entities: 10_000,
	Rate:     2000,
	Times:    12,
	Length:   15 * time.Second,
	Forward:  true,
	Limits:   Limits{Lost: 0, Doubled: 0},
}

const (
	streamName    = "SALES"
	forwardedName = "FORWARDED"
	bareName      = "BARE"

	doubleEach = 100  // each 100th message is published as two
	poisonEach = 5000 // each 5,000th becomes a dead letter

	baselineFor = 5 * time.Second
)

// Applied has the figures of a run with a stream.
type Applied struct {
	Fault           string
	Nodes, Entities int
	Quiet, Struck   int     // messages before and during the strikes
	Rate, Burst     float64 // messages a second: without strikes, and in a burst during strikes
	// Acknowledged, OneByOne and Published are the figures of package baseline. Alongside is
	// Acknowledged while the messages are being published, as they are in a burst.
	Acknowledged, Alongside, OneByOne, Published float64
	Strikes                                      []AppliedStrike
	Dead, WantDead                               int // dead letters, and how many there should be
	Lost, Doubled, Disorder                      int // messages
	Sent                                         int // messages that entities published
	Forward                                      bool
	Examples                                     []string
}

// An AppliedStrike is one strike, and the time until messages of all partitions were applied.
type AppliedStrike struct {
	What  string
	After time.Duration
}

func (a Applied) Missed() (misses []string) {
	if a.Lost+a.Doubled+a.Disorder > 0 {
		misses = append(misses, fmt.Sprintf("%d lost, %d doubled, %d out of order: want none: %v", a.Lost, a.Doubled, a.Disorder, a.Examples))
	}
	if a.Dead != a.WantDead {
		misses = append(misses, fmt.Sprintf("%d dead letters, want %d", a.Dead, a.WantDead))
	}
	return misses
}

func (a Applied) Print(w io.Writer) error {
	for i, s := range a.Strikes {
		fmt.Fprintf(w, "%s %2d: %s; all partitions are applied after %v\n", a.Fault, i+1, s.What, s.After.Round(time.Millisecond))
	}
	fmt.Fprintf(w, "%s to %d entities at %d nodes: %d messages without faults, %.0f/s; %d messages with %d strikes, the first %d of them %.0f/s\n",
		a.Fault, a.Entities, a.Nodes, a.Quiet, a.Rate, a.Struck, len(a.Strikes), a.Quiet, a.Burst)
	if a.Forward {
		fmt.Fprintf(w, "published by entities: %d; a process that only publishes: %.0f/s (%.2f×)\n", a.Sent, a.Published, a.Rate/a.Published)
	}
	_, err := fmt.Fprintf(w, "AckExplicit: %.0f/s (%.2f×), while they are published %.0f/s (with strikes %.2f×); a worker, one message at a time: %.0f/s (%.1f×, with strikes %.1f×)\nlost=%d doubled=%d out of order=%d, %d of %d dead letters\n",
		a.Acknowledged, a.Rate/a.Acknowledged, a.Alongside, a.Burst/a.Alongside, a.OneByOne, a.Rate/a.OneByOne, a.Burst/a.OneByOne,
		a.Lost, a.Doubled, a.Disorder, a.Dead, a.WantDead)
	return err
}

func streamed(ctx context.Context, c *cluster.Cluster, f Fault, o Options) (Outcome, error) {
	a := Applied{Fault: f.Name, Nodes: o.Nodes, Entities: o.Load.Entities, Forward: f.Forward}
	s, err := newSeller(ctx, c.URL(), o)
	if err != nil {
		return a, err
	}
	defer s.nc.Close()
	o.Say("publishing %d messages at %s", o.Messages, c.URL())
	a.Alongside, err = baseline.Acknowledged(ctx, s.js, streamName, func() (n int, err error) {
		a.Quiet, err = s.sellMarked(ctx, o.Messages, 0)
		return a.Quiet, err
	})
	if err == nil {
		err = a.measureOthers(ctx, s)
	}
	if err != nil {
		return a, err
	}
	d := &DurableRun{crew: crew{Cluster: c}, Length: o.Length}
	o.Say("%d nodes begin to read", o.Nodes)
	for range o.Nodes {
		d.started++
		n, err := c.Launch(fmt.Sprint("n", d.started))
		if err != nil {
			return a, err
		}
		d.Nodes = append(d.Nodes, n)
	}
	if err := d.Nodes[0].Await(ctx, node.Up); err != nil {
		return a, err
	}
	begin := time.Now()
	conn, err := c.Dial(ctx, "client")
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }() // nothing waits for it
	stocks := workload.NewStockClient(conn)
	if err := s.awaitMarks(ctx, stocks, 0); err != nil {
		return a, err
	}
	a.Rate = float64(a.Quiet) / time.Since(begin).Seconds()
	o.Say("%.0f messages a second; %d times: %s", a.Rate, o.Times, f.About)
	if err := a.strike(ctx, d, s, stocks, o); err != nil {
		return a, err
	}
	a.Struck = s.sold - a.Quiet
	if err := a.judge(ctx, c, s, stocks); err != nil {
		return a, err
	}
	if f.Forward {
		err = a.judgeForwarded(ctx, s)
	}
	return a, err
}

func (a *Applied) measureOthers(ctx context.Context, s *seller) (err error) {
	n := a.Quiet
	if a.Acknowledged, err = baseline.Acknowledged(ctx, s.js, streamName, func() (int, error) { return n, nil }); err != nil {
		return err
	}
	a.OneByOne, err = baseline.OneByOne(ctx, s.js, streamName, func(m jetstream.Msg) string {
		id, _, _ := strings.Cut(string(m.Data()), " ")
		return id
	}, n, baselineFor)
	if err != nil {
		return err
	}
	a.Published, err = baseline.Published(ctx, s.js, bareName, n)
	return errors.Join(err, s.js.DeleteStream(ctx, bareName))
}

// strike strikes o.Times times. Meanwhile messages are published: at first o.Messages as fast as
// possible, and then o.Load.Rate a second.
func (a *Applied) strike(ctx context.Context, d *DurableRun, s *seller, stocks *workload.StockClient, o Options) error {
	var over atomic.Bool
	var group sync.WaitGroup
	defer group.Wait()
	defer over.Store(true)
	var burst, rest error
	begin := time.Now()
	group.Go(func() {
		var n int
		if n, burst = s.sellMarked(ctx, o.Messages, 1); burst == nil {
			group.Go(func() {
				if burst = s.awaitMarks(ctx, stocks, 1); burst == nil {
					a.Burst = float64(n) / time.Since(begin).Seconds()
				}
			})
			_, rest = s.sell(ctx, math.MaxInt, o.Load.Rate, over.Load)
		}
	})
	for i := range o.Times {
		// The strike hits any moment of reading, or of storing the position.
		if err := sleep(ctx, time.Duration(i)*370*time.Millisecond%time.Second); err != nil {
			return err
		}
		what, at, err := d.disturbReaders(ctx, i)
		if err == nil {
			err = s.mark(ctx, i+2)
		}
		if err == nil {
			err = s.awaitMarks(ctx, stocks, i+2)
		}
		if err != nil {
			return fmt.Errorf("strike %d, %s: %w", i+1, what, err)
		}
		a.Strikes = append(a.Strikes, AppliedStrike{what, time.Since(at)})
		if err := d.replace(ctx); err != nil {
			return err
		}
	}
	over.Store(true)
	group.Wait()
	last := o.Times + 2
	return errors.Join(burst, rest, s.mark(ctx, last), s.awaitMarks(ctx, stocks, last))
}

// disturbReaders strikes once. It returns what it did, and when the strike had ended.
func (d *DurableRun) disturbReaders(ctx context.Context, i int) (what string, at time.Time, err error) {
	victim := d.Nodes[i%len(d.Nodes)]
	now := func(what string, err error) (string, time.Time, error) { return what, time.Now(), err }
	switch i % 6 {
	case 1:
		if err := d.grow(ctx, 1); err != nil {
			return now("a node joins", err)
		}
		for _, old := range slices.Clone(d.Nodes[:len(d.Nodes)-1]) {
			if err := d.Cluster.Leave(ctx, old); err != nil {
				return now("a node leaves", err)
			}
			if err := d.replace(ctx); err != nil {
				return now("a node is restarted", err)
			}
		}
		last := len(d.Nodes) - 1
		leaving := d.Nodes[last]
		d.Nodes = d.Nodes[:last]
		return now("a node joins, the others are restarted in turn, and one leaves", d.Cluster.Leave(ctx, leaving))
	case 2:
		all := d.Cluster.Servers()
		server := all[i/6%len(all)]
		err := errors.Join(server.Kill(), sleep(ctx, time.Second), server.Start())
		return now("a NATS server is killed and started", err)
	case 3:
		if err := victim.Signal(syscall.SIGSTOP); err != nil {
			return now("a node stops", err)
		}
		err := sleep(ctx, d.Length)
		return now(fmt.Sprintf("a node stops for %v", d.Length), errors.Join(err, victim.Signal(syscall.SIGCONT)))
	default:
		return now("a node is killed", victim.Kill())
	}
}

// judge waits until all messages should be applied or be dead letters. Then it compares what all
// stocks have heard with what was published.
func (a *Applied) judge(ctx context.Context, c *cluster.Cluster, s *seller, stocks *workload.StockClient) error {
	store, err := natsstore.Open(ctx, c.URL(), natsstore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	ids := s.ids()
	for limit := time.Now().Add(effectPatience); ; { // marks do not wait for messages of other stocks
		a.Lost, a.Doubled, a.Disorder, a.Examples = 0, 0, 0, nil
		var mu sync.Mutex
		err := eachBell(len(ids), func(i int) error {
			last, again, missed, err := stocks.Ref(ids[i], shard.Timeout(ledgerPatience)).Report(ctx)
			mu.Lock()
			defer mu.Unlock()
			a.compare(ids[i], s.sales[ids[i]], heard{last, again, missed})
			return err
		})
		if err != nil {
			return err
		}
		letters, err := feeds.Letters(ctx, store, node.Feed)
		if err != nil {
			return err
		}
		a.Dead, a.WantDead = len(letters), s.poison
		if a.Lost == 0 && a.Dead >= a.WantDead || time.Now().After(limit) {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// heard has what a stock got: last is the highest number of a sale, again counts the sales that
// came later with that number or a lower one, and missed counts the skipped numbers.
type heard struct{ last, again, missed int64 }

func (h *heard) hear(number int64) {
	if number <= h.last {
		h.again++
		return
	}
	h.missed += number - h.last - 1
	h.last = number
}

func (a *Applied) compare(id string, want, got heard) {
	if got == want {
		return
	}
	late := min(got.missed, max(got.again-want.again, 0)) // sales that came after a later one
	a.Disorder += int(late)
	a.Lost += int(got.missed - late + max(want.last-got.last, 0) + max(want.again-got.again, 0))
	a.Doubled += int(max(got.again-want.again-late, 0) + max(got.last-want.last, 0))
	if len(a.Examples) < 5 {
		a.Examples = append(a.Examples, fmt.Sprintf("%s: got %+v, want %+v", id, got, want))
	}
}

// judgeForwarded compares the messages that the stocks have published with those that they got.
func (a *Applied) judgeForwarded(ctx context.Context, s *seller) error {
	want := 0
	for _, sale := range s.sales {
		want += int(sale.last + sale.again)
	}
	c, err := s.js.CreateConsumer(ctx, forwardedName, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: time.Minute})
	if err != nil {
		return err
	}
	if err := until(ctx, "the entities have published all", func() bool {
		info, err := c.Info(ctx)
		return err == nil && int(info.NumPending) >= want
	}); err != nil {
		return err
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	got := map[string]*heard{}
	for more := true; more; a.Sent++ {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		number, err := strconv.ParseInt(string(m.Data()), 10, 64)
		if err != nil {
			return err
		}
		id := strings.TrimPrefix(m.Subject(), workload.ForwardedTo)
		if got[id] == nil {
			got[id] = &heard{}
		}
		got[id].hear(number)
		about, err := m.Metadata()
		if err != nil {
			return err
		}
		more = about.NumPending > 0
	}
	for _, id := range s.ids() {
		if got[id] == nil {
			got[id] = &heard{}
		}
		a.compare(id+", as published", s.sales[id], *got[id])
	}
	return nil
}

// A seller publishes sales to the stream, those of a stock in order. One goroutine at a time may sell.
type seller struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	entities int
	order    int // of the next sale among all

	mu      sync.Mutex
	sales   map[string]heard // what stocks should hear
	batches int
	sold    int // messages
	poison  int // dead letters
}

const batchSales = 2000

func newSeller(ctx context.Context, url string, o Options) (*seller, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096), jetstream.WithPublishAsyncTimeout(2*time.Second))
	if err != nil {
		return nil, err
	}
	for name, subjects := range map[string][]string{streamName: node.StreamSubjects(), forwardedName: {workload.ForwardedTo + ">"}, bareName: {bareName}} {
		cfg := jetstream.StreamConfig{Name: name, Subjects: subjects, Replicas: max(o.Cluster.Replicas, 1)}
		var last error
		if err := until(ctx, "there is a stream "+name, func() bool { // the servers of a cluster may not have a leader yet
			within, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, last = js.CreateOrUpdateStream(within, cfg)
			return last == nil
		}); err != nil {
			return nil, errors.Join(err, last)
		}
	}
	return &seller{nc: nc, js: js, entities: o.Load.Entities, sales: map[string]heard{}}, nil
}

// sellMarked publishes n sales and then a mark. It returns how many messages it published.
func (s *seller) sellMarked(ctx context.Context, n, mark int) (messages int, err error) {
	messages, err = s.sell(ctx, n, 0, func() bool { return false })
	return messages, errors.Join(err, s.mark(ctx, mark))
}

// sell publishes n sales, at most rate a second, until over() is true; rate 0 means no limit. It
// returns how many messages it published.
func (s *seller) sell(ctx context.Context, n, rate int, over func() bool) (messages int, err error) {
	most := min(batchSales, s.entities) // of different stocks: a repeated batch keeps their orders
	if rate > 0 {
		most = max(min(most, rate/10), 1)
	}
	begin := time.Now()
	for done := 0; done < n && !over(); {
		batch := make([]*nats.Msg, 0, most*2)
		for ; done < n && len(batch) < most; done++ {
			e := s.order * 7919 % s.entities
			batch = s.add(batch, e%len(node.StreamSubjects()), fmt.Sprint("s", e))
			s.order++
		}
		messages += len(batch)
		if err := s.publish(ctx, batch); err != nil {
			return messages, err
		}
		if rate > 0 {
			if err := sleep(ctx, time.Until(begin.Add(time.Duration(done)*time.Second/time.Duration(rate)))); err != nil {
				return messages, err
			}
		}
	}
	return messages, nil
}

// add appends a stock's next sale to batch. At times it appends the sale twice, or also a message
// that becomes a dead letter.
func (s *seller) add(batch []*nats.Msg, partition int, stock string) []*nats.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	sale := s.sales[stock]
	sale.last++
	numbers := []int64{sale.last}
	if s.sold%doubleEach == 0 {
		numbers = append(numbers, sale.last)
		sale.again++
	}
	if s.sold%poisonEach == 0 {
		numbers = append(numbers, 0)
		s.poison++
	}
	s.sales[stock] = sale
	for _, number := range numbers {
		batch = append(batch, &nats.Msg{Subject: node.StreamSubjects()[partition], Data: node.StreamMessage(stock, number)})
	}
	s.sold += len(numbers)
	return batch
}

// publish returns when the stream has all messages of a batch. It repeats what was not acknowledged.
func (s *seller) publish(ctx context.Context, batch []*nats.Msg) error {
	s.mu.Lock()
	s.batches++
	number := s.batches
	s.mu.Unlock()
	ids := make([]string, len(batch))
	for i := range batch {
		ids[i] = fmt.Sprintf("%d-%d", number, i)
	}
	for len(batch) > 0 {
		futures := make([]jetstream.PubAckFuture, len(batch))
		for i, m := range batch {
			// PublishMsgAsync blocks while too many messages are under way, and fails while the
			// server is away.
			futures[i], _ = s.js.PublishMsgAsync(&nats.Msg{Subject: m.Subject, Data: m.Data}, jetstream.WithMsgID(ids[i]), jetstream.WithRetryAttempts(1))
		}
		left := 0
		for i, f := range futures {
			acknowledged := false
			if f != nil {
				select {
				case <-f.Ok():
					acknowledged = true
				case <-f.Err():
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if !acknowledged {
				batch[left], ids[left] = batch[i], ids[i]
				left++
			}
		}
		if batch, ids = batch[:left], ids[:left]; left > 0 {
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

func markName(mark, partition int) string { return fmt.Sprintf("mark-%d-%d", mark, partition) }

// mark publishes one message to each partition, for a stock that gets no other messages.
func (s *seller) mark(ctx context.Context, mark int) error {
	var batch []*nats.Msg
	for p := range node.StreamSubjects() {
		s.mu.Lock()
		s.sales[markName(mark, p)] = heard{last: 1}
		s.sold++
		s.mu.Unlock()
		batch = append(batch, &nats.Msg{Subject: node.StreamSubjects()[p], Data: node.StreamMessage(markName(mark, p), 1)})
	}
	return s.publish(ctx, batch)
}

// awaitMarks awaits a mark in all partitions.
func (s *seller) awaitMarks(ctx context.Context, stocks *workload.StockClient, mark int) error {
	for p := range node.StreamSubjects() {
		stock := stocks.Ref(markName(mark, p), shard.Timeout(ledgerPatience))
		if err := until(ctx, "a message of each partition is applied", func() bool {
			last, _, _, err := stock.Report(ctx)
			return err == nil && last > 0
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *seller) ids() (all []string) {
	for id := range s.sales {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}
