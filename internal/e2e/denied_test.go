package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// without returns r without its i-th right, and that right. The publish rights have the lower
// numbers.
func without(r rights.Rights, i int) (left rights.Rights, right string) {
	left = rights.Rights{Publish: slices.Clone(r.Publish), Subscribe: slices.Clone(r.Subscribe)}
	if i < len(r.Publish) {
		left.Publish = slices.Delete(left.Publish, i, i+1)
		return left, r.Publish[i]
	}
	i -= len(r.Publish)
	left.Subscribe = slices.Delete(left.Subscribe, i, i+1)
	return left, r.Subscribe[i]
}

// rightOf returns the beginning of a right's subjects, as it appears in errors: the part that is
// the same for all of them.
func rightOf(right string) string {
	right, _, _ = strings.Cut(right, " ")
	right, _, _ = strings.Cut(right, ">")
	right, _, _ = strings.Cut(right, "*")
	return right
}

// TestEachRightIsNamed removes each right of each class in turn. Each operation that needs the
// right fails with an error that names it, long before its deadline of a minute.
func TestEachRightIsNamed(t *testing.T) {
	// The members of this test have a cluster of their own, because some of them join and end.
	workers, web := rights.Worker("other", "bank"), rights.Client("e2e", "web")
	ann, bob, php := rights.Operator("e2e", "ann"), rights.Reader("e2e", "bob"), rights.Gateway("e2e", "php")
	users := map[string]rights.Rights{"host": rights.Worker("e2e", ""), "worker": workers, "web": web, "ann": ann, "bob": bob, "php": php}
	missing := map[string]string{} // by user
	for role, r := range map[string]rights.Rights{"worker": workers, "web": web, "ann": ann, "bob": bob, "php": php} {
		for i := range len(r.Publish) + len(r.Subscribe) {
			user := fmt.Sprint(role, "-", i)
			users[user], missing[user] = without(r, i)
		}
	}
	url := leastPrivilege(t, users)
	cluster := newCluster(t, url("host"))
	config := cluster.config("a")
	config.Gateway = true
	cluster.run(cluster.host(config))

	try := map[string]func(ctx context.Context, user string) error{
		"worker": func(ctx context.Context, user string) error { return beWorker(ctx, t, url(user)) },
		"web": func(ctx context.Context, user string) error {
			conn, err := shard.Dial(ctx, newCluster(t, url(user)).config("web"))
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			_, err = fixture.NewAccountClient(conn).Ref("alice").Add(ctx, 1)
			return err
		},
		"ann": func(ctx context.Context, user string) error { return beOperator(ctx, url(user), "ann", true) },
		"bob": func(ctx context.Context, user string) error { return beOperator(ctx, url(user), "bob", false) },
		"php": func(ctx context.Context, user string) error { return beCaller(ctx, url(user)) },
	}
	for user, right := range missing {
		t.Run(user+" without "+strings.ReplaceAll(right, " ", "_"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			role, _, _ := strings.Cut(user, "-")
			begin := time.Now()
			err := try[role](ctx, user)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), rightOf(right)) {
				t.Fatalf("after %v: %v, want an error with %q", time.Since(begin), err, rightOf(right))
			}
			took := time.Since(begin)
			t.Logf("after %v: %v", took, err)
			if took > promptly {
				t.Errorf("it took %v, want at most %v", took, promptly)
			}
		})
	}
	for role, f := range try {
		if err := f(t.Context(), role); err != nil {
			t.Errorf("%s with all rights: %v", role, err)
		}
	}
}

// beWorker does everything that a member does, in a cluster of its own.
func beWorker(ctx context.Context, t *testing.T, url string) error {
	backend, err := natsstore.Open(ctx, url, natsstore.Config{Name: "bank", Partitions: 1, Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer backend.Close()
	if err := useStore(ctx, backend.Shards(), fmt.Sprintf("T%x", rand.Uint32())); err != nil {
		return err
	}
	config := newCluster(t, url).config("b")
	config.Cluster, config.Gateway = "other", true
	config.CallTimeout, config.Membership.JoinTimeout = time.Minute, time.Minute
	n := shard.New(config)
	defer func() { _ = n.Close() }()
	if err := fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }); err != nil {
		return err
	}
	return n.Start(ctx)
}

// useStore does everything that a member does with its store, for a type that has no streams yet.
func useStore(ctx context.Context, s store.Shards, kind string) error {
	shard := store.Shard{Type: kind, Number: 1}
	first, err := s.Append(ctx, shard, store.Start, []byte("1"))
	if err != nil {
		return err
	}
	second, err := s.Append(ctx, shard, first, []byte("2"))
	if err != nil {
		return err
	}
	if _, err := s.Head(ctx, shard); err != nil {
		return err
	}
	head := store.Head{Since: second}
	if head.Revision, err = s.SetHead(ctx, shard, head); err != nil {
		return err
	}
	last, err := s.Put(ctx, shard, head.Revision, []store.Change{{ID: "alice", Value: []byte("1")}})
	if err != nil {
		return err
	}
	if _, _, err := s.Get(ctx, shard, []string{"alice"}, last); err != nil {
		return err
	}
	return s.Trim(ctx, shard, head)
}

// beOperator asks for the cluster's state. If commands is set, it also gives a command, which is
// refused.
func beOperator(ctx context.Context, url, name string, commands bool) error {
	c, err := admin.Dial(ctx, admin.Options{Cluster: "e2e", Name: name, Transport: natstransport.New(url)})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Members(ctx); err != nil || !commands {
		return err
	}
	_, err = c.SetState(ctx, "Account", "nobody", nil)
	if errors.Is(err, admin.ErrRefused) {
		return nil
	}
	return err
}

// beCaller calls entities like a program without generated code.
func beCaller(ctx context.Context, url string) error {
	denied := make(chan error, 1)
	nc, err := nats.Connect(url, nats.CustomInboxPrefix("_INBOX.php"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case denied <- err:
		default:
		}
	}))
	if err != nil {
		return err
	}
	defer nc.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := nc.RequestWithContext(ctx, "sh.e2e.g.php.Account.Add.alice", []byte(`{"n":1}`))
		answered <- err
	}()
	select {
	case err := <-denied:
		return err
	case err := <-answered:
		return err
	}
}
