package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/store/membertable/conformance"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// natsDialer is a dialer of nats.go.
type natsDialer struct{ *conformance.Dialer }

func (d natsDialer) Dial(network, address string) (net.Conn, error) {
	return d.Dialer.Dial(context.Background(), network, address)
}

// members runs the suite of membership tables on servers that run already, each test under a
// name of its own.
func members(t *testing.T, servers []*natsproc.Server, rows int, restart func(t *testing.T)) {
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	url := strings.Join(urls, ",")
	conformance.Run(t, conformance.Subject{Open: func(t *testing.T) conformance.Harness {
		cfg := natsstore.Config{Name: fmt.Sprint("m", names.Add(1)), Replicas: len(servers)}
		through := func(t *testing.T, cluster string) (membertable.Table, *conformance.Dialer) {
			d := &conformance.Dialer{}
			cfg := cfg
			cfg.ConnectOptions = []nats.Option{nats.SetCustomDialer(natsDialer{d}), nats.PingInterval(time.Hour)}
			return open(t, url, cfg).Members(cluster), d
		}
		return conformance.Harness{
			Client: func(t *testing.T, cluster string) membertable.Table { return open(t, url, cfg).Members(cluster) },
			Wait:   func(d time.Duration) { <-time.After(d) },
			Hang:   100 * time.Millisecond,
			Rows:   rows,
			Held: func(t *testing.T, cluster string) (membertable.Table, func(), func()) {
				c, d := through(t, cluster)
				return c, d.Hold, d.Open
			},
			Deaf: func(t *testing.T, cluster string) (membertable.Table, func(), func()) {
				c, d := through(t, cluster)
				return c, d.Deafen, d.Open
			},
			Restart: restart,
		}
	}})
}

func TestMembersConformanceR1(t *testing.T) {
	t.Parallel()
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	members(t, []*natsproc.Server{s}, 10_000, func(t *testing.T) {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMembersConformanceR3(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers")
	}
	members(t, cluster(t), 10_000, nil)
}

// One of three servers is killed, again and again, while members vote: no vote is lost, none is
// there twice, and whoever reads a version reads the same rows.
func TestMembersServersKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers")
	}
	servers := cluster(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	const voters, eachRow = 3, 100
	var seen sync.Map // rows, by version
	var ended atomic.Bool
	vote := func(ctx context.Context, c membertable.Table, suspect, by membertable.ID) error {
		s, err := c.Read(ctx, 0)
		if err != nil {
			return err
		}
		text := fmt.Sprint(s.Rows)
		if was, there := seen.LoadOrStore(s.Version, text); there && was != text {
			t.Errorf("version %d was read as %v and as %v", s.Version, was, text)
		}
		row, _ := s.Row(suspect)
		if slices.ContainsFunc(row.Suspicions, func(s membertable.Suspicion) bool { return s.By == by }) {
			return nil // its answer was lost
		}
		row.ID = suspect
		row.Suspicions = append(slices.Clone(row.Suspicions), membertable.Suspicion{By: by})
		_, err = c.Write(ctx, s.Version, row)
		return err
	}
	var wg sync.WaitGroup
	var voted atomic.Int64
	for n := range voters {
		c := open(t, strings.Join(urls, ","), natsstore.Config{Replicas: 3, Timeout: time.Second}).Members("test")
		wg.Go(func() {
			for i := 0; !ended.Load(); i++ {
				suspect := membertable.ID{Name: "suspect", Incarnation: uint64(i / eachRow)}
				by := membertable.ID{Name: fmt.Sprint("voter-", n), Incarnation: uint64(i)}
				_, err := settle(t, func(ctx context.Context) (struct{}, error) {
					err := vote(ctx, c, suspect, by)
					if errors.Is(err, store.ErrConflict) {
						err = store.ErrBusy // read again
					}
					return struct{}{}, err
				})
				if err != nil {
					t.Error(err)
					return
				}
				voted.Add(1)
			}
		})
	}
	for _, victim := range servers {
		<-time.After(time.Second)
		if err := victim.Kill(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ended.Store(true)
	wg.Wait()
	s, err := settle(t, func(ctx context.Context) (membertable.Snapshot, error) {
		return open(t, urls[0], natsstore.Config{Replicas: 3}).Members("test").Read(ctx, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	votes, by := 0, make(map[membertable.ID]bool)
	for _, row := range s.Rows {
		for _, s := range row.Suspicions {
			votes++
			by[s.By] = true
		}
	}
	if len(by) != int(voted.Load()) || votes != int(voted.Load()) {
		t.Errorf("%d votes of %d voters, want %d of each", votes, len(by), voted.Load())
	}
	t.Logf("%d votes in %d rows at version %d", votes, len(s.Rows), s.Version)
}

// TestMembersBatchLimit: a server may take fewer messages at once than a write has rows. Then nothing is
// written, and a smaller write is.
func TestMembersBatchLimit(t *testing.T) {
	s := configured(t, `jetstream {store_dir: "`+t.TempDir()+`", limits {batch {max_msgs: 10}}}`)
	c := open(t, s.URL(), natsstore.Config{}).Members("test")
	was, err := c.Read(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []membertable.Row
	for i := range membertable.MaxRows {
		all = append(all, membertable.Row{ID: membertable.ID{Name: "m", Incarnation: uint64(i)}})
	}
	_, err = c.Write(t.Context(), was.Version, all...)
	wantWords(t, "write", err, store.ErrTooLarge, "10199", "max_msgs")
	v, err := c.Write(t.Context(), was.Version, all[:10]...)
	if err != nil || v != was.Version+10 {
		t.Errorf("got version %d (%v) after ten rows at version %d", v, err, was.Version)
	}
}
