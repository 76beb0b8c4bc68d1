package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/store/membertable/conformance"
	"github.com/shardgen/shardgen/store/membertable/etcd"
)

// A server is one etcd, which keeps its files and address over restarts.
type server struct {
	cfg  *embed.Config
	etcd *embed.Etcd
}

// start runs a server until the test ends.
func start(t *testing.T) *server {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = t.TempDir(), "fatal", true
	client, peer := address(t), address(t)
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = client, client
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peer, peer
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	s := &server{cfg: cfg}
	s.run(t)
	t.Cleanup(func() { s.etcd.Close() })
	return s
}

// address returns a free address of this host.
func address(t *testing.T) []url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return []url.URL{{Scheme: "http", Host: l.Addr().String()}}
}

func (s *server) run(t *testing.T) {
	t.Helper()
	var err error
	if s.etcd, err = embed.StartEtcd(s.cfg); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready within a minute")
	}
}

// open opens the tables below a prefix until the test ends.
func (s *server) open(t *testing.T, prefix string, d *conformance.Dialer) *etcd.Store {
	t.Helper()
	return etcd.New(s.client(t, d), prefix)
}

// client opens a client until the test ends.
func (s *server) client(t *testing.T, d *conformance.Dialer) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: []string{s.cfg.ListenClientUrls[0].Host}, DialTimeout: 10 * time.Second}
	if d != nil {
		cfg.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return d.Dial(ctx, "tcp", address)
		})}
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var prefixes atomic.Uint64

func TestConformance(t *testing.T) {
	s := start(t)
	conformance.Run(t, conformance.Subject{Open: func(t *testing.T) conformance.Harness {
		prefix := fmt.Sprintf("test%d/", prefixes.Add(1))
		through := func(t *testing.T, cluster string) (membertable.Table, *conformance.Dialer) {
			d := &conformance.Dialer{}
			return s.open(t, prefix, d).Members(cluster), d
		}
		return conformance.Harness{
			Client: func(t *testing.T, cluster string) membertable.Table { return s.open(t, prefix, nil).Members(cluster) },
			Wait:   func(d time.Duration) { <-time.After(d) },
			Hang:   100 * time.Millisecond,
			Held: func(t *testing.T, cluster string) (membertable.Table, func(), func()) {
				c, d := through(t, cluster)
				return c, d.Hold, d.Open
			},
			Deaf: func(t *testing.T, cluster string) (membertable.Table, func(), func()) {
				c, d := through(t, cluster)
				return c, d.Deafen, d.Open
			},
			Restart: func(t *testing.T) { s.etcd.Close(); s.run(t) },
		}
	}})
}

// TestAway: without a server, a read fails, and a write is not applied or has an uncertain outcome.
func TestAway(t *testing.T) {
	s := start(t)
	table := s.open(t, etcd.Prefix, nil).Members("test")
	if _, err := table.Write(t.Context(), 0, membertable.Row{ID: membertable.ID{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	s.etcd.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := table.Write(ctx, 1, membertable.Row{ID: membertable.ID{Name: "a"}}); !errors.Is(err, store.ErrUncertain) && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("write: got %v, want %v or %v", err, store.ErrUncertain, store.ErrUnavailable)
	}
	if _, err := table.Read(ctx, 0); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("read: got %v, want %v", err, store.ErrUnavailable)
	}
	s.run(t)
	if got, err := table.Read(t.Context(), 0); err != nil || len(got.Rows) != 1 {
		t.Errorf("after a restart: %+v %v, want the row", got, err)
	}
}

// TestDeletedRows: a deleted row leaves no key, and an I-am-alive without a row makes none.
func TestDeletedRows(t *testing.T) {
	s := start(t)
	table := s.open(t, etcd.Prefix, nil).Members("test")
	row := membertable.Row{ID: membertable.ID{Name: "a", Incarnation: 1}}
	v, err := table.Write(t.Context(), 0, row)
	if err == nil {
		err = table.Alive(t.Context(), row.ID, time.Now())
	}
	if err == nil {
		_, err = table.Delete(t.Context(), v, []membertable.ID{row.ID})
	}
	if err == nil {
		err = table.Alive(t.Context(), row.ID, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	left, err := s.client(t, nil).Get(t.Context(), etcd.Prefix+"test/rows/", clientv3.WithPrefix())
	if err != nil || len(left.Kvs) != 0 {
		t.Errorf("%v are left (%v), want nothing", left.Kvs, err)
	}
}
