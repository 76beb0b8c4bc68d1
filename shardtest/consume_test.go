package shardtest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/stream"
	memorystream "github.com/shardgen/shardgen/stream/memory"
)

// noteAll consumes a stream: it tells the wallet named by a message's subject to note the number in
// the message's data. It counts the calls.
func noteAll(source stream.Source, calls *atomic.Int64) shardtest.Option {
	return shardtest.Host(func(n *shard.Node) error {
		wallets := bank.NewWalletClient(n)
		return errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
			shard.Consume(n, "notes", source, func(ctx context.Context, m shard.Message) error {
				calls.Add(1)
				number, _ := binary.Varint(m.Data)
				return wallets.Tell(m.Subject).Note(ctx, number)
			}))
	})
}

// A publisher numbers the messages to each wallet.
type publisher struct {
	source *memorystream.Source
	last   map[string]int64
}

func (p *publisher) publish(id string) {
	if p.last == nil {
		p.last = map[string]int64{}
	}
	p.last[id]++
	p.source.Publish(len(id)*7%p.source.Partitions(), id, binary.AppendVarint(nil, p.last[id]))
}

// check waits until each wallet has noted all its numbers in order. The parameter times says how
// often.
func (p *publisher) check(t *testing.T, c *shardtest.Cluster, times int) {
	t.Helper()
	wallets := bank.NewWalletClient(c.Client())
	for id, last := range p.last {
		var got []int64
		var err error
		c.Until(id+" has noted all", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got, err = wallets.Ref(id).Noted(ctx)
			return err == nil && len(got) >= times*int(last)
		})
		var want []int64
		for range times {
			for i := range last {
				want = append(want, i+1)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want 1 to %d, %d times", id, got, last, times)
		}
	}
}

// TestConsumeInAStorm: each message is applied once and in order, while members are killed, paused
// and cut off, the stream is unreachable, and an operator sets positions back. A replay applies
// each message once more.
func TestConsumeInAStorm(t *testing.T) {
	source := memorystream.New(3)
	p, calls := &publisher{source: source}, new(atomic.Int64)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		done, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				case <-time.After(20 * time.Millisecond):
				}
				p.publish(strings.Repeat("v", i%20+1))
				switch i % 500 {
				case 100:
					source.Cut(true)
				case 150:
					source.Cut(false)
				case 300:
					s := c.Store().Client()
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					_ = feeds.Change(ctx, s, "notes", i%3, func(r *feeds.Record) error {
						r.Position, r.Rewinds = max(r.Position, 50)-49, r.Rewinds+1
						return nil
					})
					cancel()
				}
			}
		}()
		c.Storm(time.Minute)
		close(over)
		<-done
		source.Cut(false)
		p.check(t, c, 1)
		c.Advance(time.Minute) // no tell is under way
		for i := range source.Partitions() {
			if err := feeds.Rewind(t.Context(), c.Store().Client(), "notes", i, 1, true); err != nil {
				t.Fatal(err)
			}
		}
		c.Kill(c.Running()[0])
		p.check(t, c, 2)
		t.Logf("%d calls of the function", calls.Load())
	}, noteAll(source, calls), shardtest.Latency(0, 5*time.Millisecond))
}

// TestConsumeSpreads: partitions are read at all members, and a leaving member's partitions are
// then read elsewhere.
func TestConsumeSpreads(t *testing.T) {
	source, calls := memorystream.New(6), new(atomic.Int64)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		readers := func() (names []string) {
			for i := range 6 {
				r, _, err := feeds.LoadRecord(t.Context(), c.Store().Client(), "notes", i)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(names, r.Node) && r.Node != "" {
					names = append(names, r.Node)
				}
			}
			slices.Sort(names)
			return names
		}
		publish := func() {
			for i := range 6 {
				source.Publish(i, fmt.Sprint("s", i), binary.AppendVarint(nil, 1))
			}
		}
		publish()
		c.Until("all members read", func() bool { publish(); return slices.Equal(readers(), []string{"n1", "n2", "n3"}) })
		c.Shutdown("n2")
		c.Kill("n3")
		c.Until("the others read", func() bool { publish(); return slices.Equal(readers(), []string{"n1"}) })
	}, noteAll(source, calls))
}

// TestConsumeDead: a tell that its receiver refuses for long becomes a dead letter. Until then it
// holds up later messages to its entity. A requeued letter is applied.
func TestConsumeDead(t *testing.T) {
	source, calls := memorystream.New(1), new(atomic.Int64)
	var poison atomic.Bool
	poison.Store(true)
	host := shardtest.Host(func(n *shard.Node) error {
		wallets := bank.NewWalletClient(n)
		refuse := func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
			if !strings.HasPrefix(call.Method, "Not") && call.Method != "Get" && call.ID == "bad" && poison.Load() {
				return errors.New("poison")
			}
			return next(ctx)
		}
		return errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, shard.Intercept(refuse)),
			shard.Consume(n, "notes", source, func(ctx context.Context, m shard.Message) error {
				calls.Add(1)
				switch string(m.Data) {
				case "put":
					return errors.Join(wallets.Tell("good").Note(ctx, 1), wallets.Tell(m.Subject).Put(ctx, 5))
				case "panic":
					panic("broken message")
				}
				return wallets.Tell(m.Subject).Note(ctx, 1)
			}))
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		wallets := bank.NewWalletClient(c.Client())
		s := c.Store().Client()
		noted := func(id string, n int) {
			t.Helper()
			c.Until(fmt.Sprintf("%s has noted %d", id, n), func() bool {
				got, err := wallets.Ref(id).Noted(t.Context())
				return err == nil && len(got) == n
			})
		}
		letters := func() (all []feeds.Letter) {
			found, err := s.List(t.Context(), feeds.LetterPrefix("notes"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				l, err := feeds.ParseLetter(f)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, l)
			}
			return all
		}
		source.Publish(0, "bad", []byte("put"))
		source.Publish(0, "bad", []byte("note"))
		source.Publish(0, "good", []byte("note"))
		noted("good", 2)
		c.Advance(4 * time.Minute)
		noted("bad", 0)
		c.Kill(c.Running()[0]) // the next reader finds the tell unfinished
		noted("bad", 1)
		got := letters()
		if len(got) != 1 || got[0].Entity != "bad" || got[0].Method != "Put" || got[0].Part != 1 || !strings.Contains(got[0].Why, "poison") || string(got[0].Data) != "put" {
			t.Fatalf("got letters %+v, want one of Put at bad", got)
		}
		source.Publish(0, "bad", []byte("panic"))
		c.Until("the broken message is dead", func() bool { return len(letters()) == 2 })
		requeue := func() {
			err := feeds.Requeue(t.Context(), s, "notes", got[0].Name)
			if err != nil {
				t.Fatal(err)
			}
		}
		requeue()
		c.Until("the requeued letter is dead again", func() bool { return letters()[0].At.After(got[0].At) })
		poison.Store(false)
		requeue()
		c.Until("the requeued letter is applied", func() bool { return len(letters()) == 1 })
		total, err := wallets.Ref("bad").Get(t.Context())
		if err != nil || total != 5 {
			t.Fatalf("got %d, %v, want 5", total, err)
		}
		noted("good", 2)
		read := calls.Load()
		if err := feeds.Rewind(t.Context(), s, "notes", 0, 1, false); err != nil {
			t.Fatal(err)
		}
		c.Until("all are read again", func() bool { return calls.Load() >= read+4 })
		c.Advance(time.Minute)
		noted("good", 2)
		noted("bad", 1)
		if total, err := wallets.Ref("bad").Get(t.Context()); err != nil || total != 5 {
			t.Fatalf("got %d, %v after the stream was read again, want 5", total, err)
		}
		l := c.Node(c.Running()[0]).Load().Feeds
		if len(l) != 1 || l[0].Name != "notes" {
			t.Fatalf("got load %+v, want the load of feed notes", l)
		}
		if len(c.Running()) == 2 { // one of the two reads
			m := c.Node(c.Running()[1]).Load().Feeds
			if dead, failed := l[0].Dead+m[0].Dead, l[0].Failed+m[0].Failed; dead < 3 || failed < 20 || l[0].Waiting+m[0].Waiting != 0 {
				t.Fatalf("got load %+v and %+v, want 3 dead letters and 20 failures", l, m)
			}
		}
	}, host)
}

// TestConsumeCalls: the function may only tell durable entities, and if it does more for a message,
// that becomes a dead letter with the remedy.
func TestConsumeCalls(t *testing.T) {
	source := memorystream.New(1)
	host := shardtest.Host(func(n *shard.Node) error {
		wallets, accounts := bank.NewWalletClient(n), fixture.NewAccountClient(n)
		return errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
			fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }),
			shard.Consume(n, "notes", source, func(ctx context.Context, m shard.Message) error {
				switch m.Subject {
				case "ask":
					_, _ = wallets.Ref("a").Add(ctx, 1)
				case "volatile":
					_, _ = accounts.Ref("a").Add(ctx, 1)
				case "many":
					for range 1025 {
						_ = wallets.Tell("a").Note(ctx, 1)
					}
				case "id":
					_ = wallets.Tell("").Note(ctx, 1)
				}
				return wallets.Tell("a").Note(ctx, 1)
			}))
	})
	want := map[string]string{
		"ask": "may only tell durable entities", "volatile": "may only tell durable entities",
		"many": "more than 1024 tells", "id": "the id is empty",
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		for subject := range want {
			source.Publish(0, subject, nil)
		}
		source.Publish(0, "right", nil)
		var found []store.Record
		c.Until("the messages are dead", func() (ok bool) {
			var err error
			found, err = c.Store().Client().List(t.Context(), feeds.LetterPrefix("notes"))
			return err == nil && len(found) == len(want)
		})
		for _, f := range found {
			l, err := feeds.ParseLetter(f)
			if err != nil || !strings.Contains(l.Why, want[l.Subject]) {
				t.Errorf("%s: got %q, %v, want %q", l.Subject, l.Why, err, want[l.Subject])
			}
		}
		c.Until("the other is applied once", func() bool {
			got, err := bank.NewWalletClient(c.Client()).Ref("a").Noted(t.Context())
			return err == nil && len(got) == 1
		})
	}, host, shardtest.Nodes(1))
}

// TestConsumeStreamChanges: a stream that was made again is read from its first message, messages
// that were deleted unread are counted, and a stream restored from an older copy is not read.
func TestConsumeStreamChanges(t *testing.T) {
	source, calls := memorystream.New(1), new(atomic.Int64)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		publish := func(n int64) { source.Publish(0, "a", binary.AppendVarint(nil, n)) }
		noted := func(want ...int64) {
			t.Helper()
			var got []int64
			c.Until(fmt.Sprint("it has noted ", want), func() bool {
				var err error
				got, err = bank.NewWalletClient(c.Client()).Ref("a").Noted(t.Context())
				return err == nil && slices.Equal(got, want)
			})
		}
		record := func() feeds.Record {
			r, _, err := feeds.LoadRecord(t.Context(), c.Store().Client(), "notes", 0)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		publish(1)
		publish(2)
		noted(1, 2)
		source.Remake()
		publish(3)
		noted(1, 2, 3)
		c.Until("its position is stored", func() bool { return record().Position == 2 })
		source.Cut(true)
		publish(4)
		publish(5)
		publish(6)
		source.Delete(0, 3)
		source.Cut(false)
		noted(1, 2, 3, 6)
		c.Until("the missed ones are counted", func() bool { return record().Missed == 2 })
		source.Cut(true)
		publish(9)
		source.Delete(0, 2)
		for range 3 { // readers that find no messages
			source.Cut(false)
			c.Advance(time.Second)
			source.Cut(true)
			c.Advance(time.Second)
		}
		source.Cut(false)
		publish(10)
		noted(1, 2, 3, 6, 10)
		c.Until("the position is stored", func() bool { return record().Position == 7 })
		if got := record().Missed; got != 3 {
			t.Errorf("got %d missed, want 3", got)
		}
		source.Cut(true)
		source.Truncate(0, 1)
		publish(7)
		source.Truncate(0, 1)
		source.Cut(false)
		before := calls.Load()
		c.Advance(time.Minute)
		publish(8)
		c.Advance(time.Minute)
		if calls.Load() != before {
			t.Error("a stream that ends before the position is read")
		}
	}, noteAll(source, calls), shardtest.Nodes(1))
}

// TestConsumeLettersOfRemadeStreams: each message that was given up has its own letter, even if a
// message of a former stream had the same position.
func TestConsumeLettersOfRemadeStreams(t *testing.T) {
	source := memorystream.New(1)
	var mended atomic.Bool
	host := shardtest.Host(func(n *shard.Node) error {
		wallets := bank.NewWalletClient(n)
		return errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
			shard.Consume(n, "notes", source, func(ctx context.Context, m shard.Message) error {
				if !mended.Load() {
					return errors.New("broken")
				}
				number, _ := binary.Varint(m.Data)
				return wallets.Tell(m.Subject).Note(ctx, number)
			}))
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		s := c.Store().Client()
		letters := func() []feeds.Letter {
			all, err := feeds.Letters(t.Context(), s, "notes")
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		for n := range int64(3) {
			source.Publish(0, "a", binary.AppendVarint(nil, n+1))
			c.Until("there is one more letter", func() bool { return len(letters()) == int(n)+1 })
			source.Remake()
			c.Advance(time.Second)
		}
		mended.Store(true)
		source.Publish(0, "a", binary.AppendVarint(nil, 4))
		stored, err := s.List(t.Context(), feeds.LetterPrefix("notes"))
		if err != nil {
			t.Fatal(err)
		}
		var requeued []feeds.Requeued
		for i, l := range letters() {
			if err := feeds.Requeue(t.Context(), s, "notes", l.Name); err != nil {
				t.Fatal(err)
			}
			requeued = append(requeued, feeds.Requeued{Letter: l.Name, Number: uint64(i + 1)})
		}
		c.Until("no letter is left", func() bool { return len(letters()) == 0 })
		got, err := bank.NewWalletClient(c.Client()).Ref("a").Noted(t.Context())
		slices.Sort(got)
		if err != nil || !slices.Equal(got, []int64{1, 2, 3, 4}) {
			t.Errorf("got %v, %v, want 1 to 4", got, err)
		}
		// A reader ends before it deletes the letters. Then the stream is made again.
		source.Remake()
		for _, f := range stored {
			if _, err := s.Put(t.Context(), f.Key, f.Value, store.None); err != nil {
				t.Fatal(err)
			}
		}
		if err := feeds.Change(t.Context(), s, "notes", 0, func(r *feeds.Record) error {
			r.Requeued = requeued
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		c.Until("no letter is left", func() bool { return len(letters()) == 0 })
		if got, err := bank.NewWalletClient(c.Client()).Ref("a").Noted(t.Context()); err != nil || len(got) != 4 {
			t.Errorf("got %v, %v, want as before", got, err)
		}
	}, host, shardtest.Nodes(1))
}

// A remadeAtOpen is a stream that is made again while a reader opens it. The field times says how
// often.
type remadeAtOpen struct {
	*memorystream.Source
	times atomic.Int64
}

func (s *remadeAtOpen) Open(ctx context.Context, partition int, after uint64) (stream.Messages, error) {
	if s.times.Add(-1) >= 0 {
		s.Remake()
		for range 5 {
			s.Publish(0, "b", binary.AppendVarint(nil, 1))
		}
	}
	return s.Source.Open(ctx, partition, after)
}

// TestConsumeStreamChangesAtOpen: a stream that is made again while it is opened is read from its first
// message, under its own identity.
func TestConsumeStreamChangesAtOpen(t *testing.T) {
	source, calls := &remadeAtOpen{Source: memorystream.New(1)}, new(atomic.Int64)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		noted := func(id string, n int) {
			t.Helper()
			c.Until(fmt.Sprintf("%s has noted %d", id, n), func() bool {
				got, err := bank.NewWalletClient(c.Client()).Ref(id).Noted(t.Context())
				return err == nil && len(got) == n
			})
		}
		for n := range int64(3) {
			source.Publish(0, "a", binary.AppendVarint(nil, n))
		}
		noted("a", 3)
		source.Cut(true)
		c.Advance(time.Second)
		source.times.Store(1) // its reader then opens the stream again
		source.Cut(false)
		noted("b", 5)
		source.Cut(true)
		source.times.Store(1)
		c.Kill("n1") // the next reader opens the stream at the stored position
		c.Until("it has ended", func() bool { return len(c.Running()) == 1 })
		source.Cut(false)
		noted("b", 10)
	}, noteAll(source, calls), shardtest.Nodes(2))
}

// TestConsumeCommitsWhatChangesNothing: a turn that changes nothing is committed, with the number
// of its message. If the message is read again after later ones, the turn does not run a second
// time.
func TestConsumeCommitsWhatChangesNothing(t *testing.T) {
	source := memorystream.New(1)
	host := shardtest.Host(func(n *shard.Node) error {
		wallets := bank.NewWalletClient(n)
		return errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
			shard.Consume(n, "notes", source, func(ctx context.Context, m shard.Message) error {
				return wallets.Tell(m.Subject).Put(ctx, 0)
			}))
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		source.Publish(0, "a", nil)
		c.Until("the wallet has a commit", func() bool {
			for id, err := range bank.NewWalletClient(c.Client()).List(t.Context()) {
				return err == nil && id == "a"
			}
			return false
		})
	}, host, shardtest.Nodes(1))
}

// TestConsumeStopsAtManyLetters: reading waits at 1,000 dead letters of a partition, until letters are
// dropped.
func TestConsumeStopsAtManyLetters(t *testing.T) {
	source := memorystream.New(1)
	host := shardtest.Host(func(n *shard.Node) error {
		return shard.Consume(n, "notes", source, func(context.Context, shard.Message) error { return errors.New("broken") })
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		for range 5000 {
			source.Publish(0, "a", nil)
		}
		s := c.Store().Client()
		letters := func() []feeds.Letter {
			all, err := feeds.Letters(t.Context(), s, "notes")
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		c.Until("it has 1,000 letters", func() bool { return len(letters()) >= 1000 })
		c.Advance(time.Minute)
		all := letters()
		r, _, err := feeds.LoadRecord(t.Context(), s, "notes", 0)
		if err != nil || len(all) != 1000 || r.Position != 1001 || !strings.Contains(r.Why, "1000 dead letters") {
			t.Fatalf("got %d letters and %+v, %v, want 1000", len(all), r, err)
		}
		for _, l := range all[:10] {
			if err := feeds.Drop(t.Context(), s, "notes", l.Name); err != nil {
				t.Fatal(err)
			}
		}
		c.Until("it has as many again", func() bool { return len(letters()) == 1000 })
	}, host, shardtest.Nodes(1))
}

// TestConsumeContextEnds: after the function has returned, tells with its context fail.
func TestConsumeContextEnds(t *testing.T) {
	source, late := memorystream.New(1), make(chan error, 1)
	host := shardtest.Host(func(n *shard.Node) error {
		wallets := bank.NewWalletClient(n)
		return errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
			shard.Consume(n, "notes", source, func(ctx context.Context, m shard.Message) error {
				time.AfterFunc(time.Second, func() { late <- wallets.Tell("a").Note(ctx, 1) })
				return nil
			}))
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		source.Publish(0, "a", nil)
		c.Advance(time.Minute)
		if err := <-late; err == nil || !strings.Contains(err.Error(), "has returned") {
			t.Fatalf("got %v, want an error that the function has returned", err)
		}
	}, host, shardtest.Nodes(1))
}

// TestRequeuedInParts: when a message whose function had failed is requeued, each of its tells is
// applied once, also if one of them becomes a dead letter and is requeued again. Deleting the record
// of the feed loses no requeued letter.
func TestRequeuedInParts(t *testing.T) {
	source := memorystream.New(1)
	var broken, poison atomic.Bool
	host := shardtest.Host(func(n *shard.Node) error {
		wallets := bank.NewWalletClient(n)
		refuse := func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
			if call.Method == "Put" && strings.HasPrefix(call.ID, "bad") && poison.Load() {
				return errors.New("poison")
			}
			return next(ctx)
		}
		return errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, shard.Intercept(refuse)),
			shard.Consume(n, "notes", source, func(ctx context.Context, m shard.Message) error {
				if broken.Load() {
					return errors.New("broken function")
				}
				return errors.Join(wallets.Tell("bad").Put(ctx, 5), wallets.Tell("good").Put(ctx, 1), wallets.Tell("bad too").Put(ctx, 7))
			}))
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx, wallets, s := t.Context(), bank.NewWalletClient(c.Client()), c.Store().Client()
		await := func(names ...string) {
			t.Helper()
			c.Until(fmt.Sprint("there are the letters ", names), func() bool {
				all, err := feeds.Letters(ctx, s, "notes")
				require.NoError(t, err)
				var got []string
				for _, l := range all {
					got = append(got, l.Name)
				}
				return slices.Equal(got, names)
			})
		}
		holds := func(want map[string]int64) {
			t.Helper()
			for id, n := range want {
				got, err := wallets.Ref(id).Get(ctx)
				require.NoError(t, err)
				require.Equal(t, n, got, id)
			}
		}
		broken.Store(true)
		poison.Store(true)
		source.Publish(0, "x", nil)
		await("0-1024")
		broken.Store(false)
		c.Advance(2 * time.Second) // the record is stored
		require.NoError(t, feeds.Requeue(ctx, s, "notes", "0-1024"))
		await("0-1024-p0", "0-1024-p2")
		poison.Store(false)
		for _, name := range []string{"0-1024-p2", "0-1024-p0"} {
			require.NoError(t, feeds.Requeue(ctx, s, "notes", name))
		}
		await()
		holds(map[string]int64{"good": 1, "bad": 5, "bad too": 7})
		c.Advance(2 * time.Second)
		r, at, err := feeds.LoadRecord(ctx, s, "notes", 0)
		require.NoError(t, err)
		require.Zero(t, r.Dead)
		require.NoError(t, s.Delete(ctx, feeds.RecordKey("notes", 0), at))
		broken.Store(true)
		source.Publish(0, "x", nil)
		await("0-1024", "0-2048") // the feed begins again
		c.Advance(2 * time.Second)
		broken.Store(false)
		require.NoError(t, feeds.Requeue(ctx, s, "notes", "0-2048"))
		await("0-1024")
		holds(map[string]int64{"good": 2, "bad": 10, "bad too": 14})
	}, host, shardtest.Nodes(1))
}

// TestConsumeWaitsForState: while the state of an entity cannot be read, its tells wait and do not
// fail.
func TestConsumeWaitsForState(t *testing.T) {
	source, calls := memorystream.New(1), new(atomic.Int64)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx, wallet, s := t.Context(), bank.NewWalletClient(c.Client()).Ref("a"), c.Store().Client()
		noted := func(n int) func() bool {
			return func() bool {
				got, err := wallet.Noted(ctx)
				return err == nil && len(got) == n
			}
		}
		flip := func() {
			for n := range 256 {
				at, key := store.Shard{Type: "Wallet", Number: n}, durable.EntityKey("a")
				head, records, err := s.Shards().Get(ctx, at, []string{key}, store.None)
				require.NoError(t, err)
				if r := records[0]; r.Revision != store.None {
					value := slices.Clone(r.Value)
					value[len(value)/2] ^= 1
					_, err = s.Shards().Put(ctx, at, head.Revision, []store.Change{{ID: key, Value: value}})
					require.NoError(t, err)
					return
				}
			}
			t.Fatal("the entity has no record")
		}
		source.Publish(0, "a", binary.AppendVarint(nil, 1))
		c.Until("it has noted 1", noted(1))
		c.Settle()
		c.Advance(10 * time.Minute)
		c.Kill("n1")
		flip()
		c.Start("n2")
		source.Publish(0, "a", binary.AppendVarint(nil, 2))
		c.Advance(20 * time.Minute)
		_, err := wallet.Noted(ctx)
		require.ErrorIs(t, err, shard.ErrActivation)
		c.Kill("n2")
		flip()
		c.Start("n3")
		c.Until("it has noted 2", noted(2))
		all, err := feeds.Letters(ctx, s, "notes")
		require.NoError(t, err)
		require.Empty(t, all)
	}, noteAll(source, calls), shardtest.Nodes(1))
}
