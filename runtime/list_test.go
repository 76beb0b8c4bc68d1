package shard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/wire"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

func listed[ID any](t *testing.T, all iter.Seq2[ID, error]) []ID {
	t.Helper()
	ids := []ID{}
	for id, err := range all {
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

// manyBytes are ids that a faulty codec or order could confuse.
var manyBytes = []string{"\x00", "\x00\x00", "!list", "a", "a\x00", "a\xff", "de-1", "de-10", "de-2", "ü", "\xfe", "\xff", "\xff\xff", strings.Repeat("x", 1024)}

func TestListVolatile(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	ctx := testContext(t)
	conn := c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	require.Empty(t, listed(t, accounts.List(ctx)))
	want := slices.Clone(manyBytes)
	for i := range 3000 {
		want = append(want, fmt.Sprint("account-", i))
	}
	for _, id := range want {
		require.NoError(t, accounts.Tell(id).Add(ctx, 1))
	}
	for _, id := range want {
		_, err := accounts.Ref(id).Get(ctx)
		require.NoError(t, err)
	}
	slices.Sort(want)
	require.NoError(t, accounts.Ref("a").Rest(ctx))
	require.NoError(t, accounts.Ref("de-10").End(ctx))
	want = slices.DeleteFunc(want, func(id string) bool { return id == "de-10" })
	require.Eventually(t, func() bool {
		return !slices.Contains(listed(t, accounts.List(ctx, shard.Active())), "a") && !slices.Contains(listed(t, accounts.List(ctx)), "de-10")
	}, testPatience, testTick, "a is passivated and de-10 has ended")
	active := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return id == "a" })
	for name, at := range map[string]shard.Caller{"a": c.nodes["a"], "b": c.nodes["b"], "client": conn} {
		accounts := fixture.NewAccountClient(at)
		require.Equal(t, want, listed(t, accounts.List(ctx)), "at %s", name)
		require.Equal(t, active, listed(t, accounts.List(ctx, shard.Active())), "at %s", name)
	}
	for _, test := range []struct {
		name string
		opts []shard.ListOption
		want func(id string) bool
	}{
		{"prefix", []shard.ListOption{shard.Prefix("de-")}, func(id string) bool { return strings.HasPrefix(id, "de-") }},
		{"prefix of none", []shard.ListOption{shard.Prefix("fr-")}, func(string) bool { return false }},
		{"after", []shard.ListOption{shard.After("account-2")}, func(id string) bool { return id > "account-2" }},
		{"after none", []shard.ListOption{shard.After("")}, func(string) bool { return true }},
		{"after the last", []shard.ListOption{shard.After("\xff\xff")}, func(string) bool { return false }},
		{"both", []shard.ListOption{shard.Prefix("account-1"), shard.After("account-17x")}, func(id string) bool {
			return strings.HasPrefix(id, "account-1") && id > "account-17x"
		}},
	} {
		some := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return !test.want(id) })
		require.Equal(t, some, listed(t, accounts.List(ctx, test.opts...)), test.name)
	}
}

func TestListDurable(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a", "b")
	ctx := testContext(t)
	conn, err := shard.Dial(ctx, v.config("client"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	wallets := bank.NewWalletClient(conn)
	require.Empty(t, listed(t, wallets.List(ctx)))
	want := slices.Clone(manyBytes)
	for i := range 300 {
		want = append(want, fmt.Sprint("v", i))
	}
	for _, id := range want {
		_, err := wallets.Ref(id).Add(ctx, 1)
		require.NoError(t, err)
	}
	_, err = wallets.Ref("only read").Get(ctx)
	require.NoError(t, err)
	slices.Sort(want)
	for name, at := range map[string]shard.Caller{"a": v.nodes["a"], "client": conn} {
		require.Equal(t, want, listed(t, bank.NewWalletClient(at).List(ctx)), "at %s", name)
	}
	require.Contains(t, listed(t, wallets.List(ctx, shard.Active())), "only read")
	v.kill("a")
	v.kill("b")
	v.start("c")
	require.Equal(t, want, listed(t, wallets.List(ctx)), "after a restart")
	require.Empty(t, listed(t, wallets.List(ctx, shard.Active())), "nothing was called since")
	_, err = wallets.Ref("v7").Get(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"v7"}, listed(t, wallets.List(ctx, shard.Active())))
	require.Equal(t, []string{"v98", "v99"}, listed(t, wallets.List(ctx, shard.Prefix("v9"), shard.After("v97"))))
}

// TestListWhileShardsMove: entities that exist throughout are listed once and in order, while
// members join, leave and are killed.
func TestListWhileShardsMove(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a", "b")
	ctx := testContext(t)
	conn, err := shard.Dial(ctx, v.config("client"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	wallets := bank.NewWalletClient(conn)
	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprint("v", i))
		_, err := wallets.Ref(want[i]).Add(ctx, 1)
		require.NoError(t, err)
	}
	slices.Sort(want)
	done := make(chan struct{})
	lists := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			got := []string{}
			for id, err := range wallets.List(ctx) {
				if err != nil {
					lists <- err
					return
				}
				got = append(got, id)
			}
			if !slices.Equal(got, want) {
				lists <- fmt.Errorf("list %d has %d ids: %q, want %d", n, len(got), got, len(want))
				return
			}
			select {
			case <-done:
				lists <- nil
				return
			default:
			}
		}
	}()
	v.start("c")
	v.kill("a")
	v.start("d")
	require.NoError(t, v.nodes["b"].Shutdown(ctx))
	delete(v.nodes, "b")
	close(done)
	require.NoError(t, receive(t, lists, "the lists end"))
}

// TestListVolatileWhileShardsMove: an entity that moves with its shard is listed throughout.
func TestListVolatileWhileShardsMove(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	ctx := testContext(t)
	accounts := fixture.NewAccountClient(c.dial("client"))
	var want []string
	for i := range 2000 {
		want = append(want, fmt.Sprint("account-", i))
		_, err := accounts.Ref(want[i]).Add(ctx, 1)
		require.NoError(t, err)
	}
	slices.Sort(want)
	b := c.start("b")
	down := make(chan error, 1)
	go func() { down <- c.nodes["a"].Shutdown(ctx) }()
	for left := false; !left; {
		select {
		case err := <-down:
			require.NoError(t, err)
			left = true
		default:
		}
		require.Equal(t, want, listed(t, accounts.List(ctx)))
	}
	require.Equal(t, want, listed(t, fixture.NewAccountClient(b).List(ctx)))
}

func TestListEndsEarly(t *testing.T) {
	c := newCluster(t, "a")
	ctx := testContext(t)
	accounts := fixture.NewAccountClient(c.nodes["a"])
	for i := range 100 {
		_, err := accounts.Ref(fmt.Sprintf("%03d", i)).Add(ctx, 1)
		require.NoError(t, err)
	}
	all := accounts.List(ctx)
	for range 3 { // each range is a list of its own
		n := 0
		for id, err := range all {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%03d", n), id)
			if n++; n == 5 {
				break
			}
		}
	}

	limit, cancel := context.WithCancel(ctx)
	defer cancel()
	var last error
	n := 0
	for _, err := range accounts.List(limit) {
		if n++; n == 5 {
			cancel()
		}
		last = err
	}
	require.Equal(t, 6, n)
	require.ErrorIs(t, last, context.Canceled)
}

func TestListOfNoHost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.tune = func(cfg *shard.Config) { cfg.CallTimeout = testPatience / 200 }
	conn := c.dial("client")
	seen := 0
	for id, err := range fixture.NewCashierClient(conn).List(t.Context()) {
		seen++
		require.Empty(t, id)
		require.ErrorIs(t, err, shard.ErrNoHost)
		require.ErrorContains(t, err, "list Cashier: shard ")
		require.ErrorContains(t, err, "list again with shard.After")
	}
	require.Equal(t, 1, seen)
}

func TestListAfterOfAnotherType(t *testing.T) {
	c := newCluster(t, "a")
	for id, err := range fixture.NewAccountClient(c.nodes["a"]).List(testContext(t), shard.After(7)) {
		require.EqualError(t, err, "list: shard.After: the id is of type int (want string)")
		require.Empty(t, id)
	}
}

// TestListInTurn: a turn can list the type of its own entity.
func TestListInTurn(t *testing.T) {
	c := emptyCluster(t)
	var ids []string
	c.tune = func(cfg *shard.Config) { cfg.Interceptors = nil }
	var accounts *fixture.AccountClient
	c.opts = []shard.HostOption{shard.Intercept(func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		if call.Method != "Get" {
			return next(ctx)
		}
		for id, err := range accounts.List(ctx) {
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return next(ctx)
	})}
	n := c.start("a")
	accounts = fixture.NewAccountClient(n)
	_, err := accounts.Ref("x").Get(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, ids)
}

// TestListIntercepted: interceptors of hosts see each page as a call to the shard, and may refuse it.
func TestListIntercepted(t *testing.T) {
	c := emptyCluster(t)
	secret := errors.New("the ids are secret")
	calls := make(chan shard.Info, 1000)
	c.opts = []shard.HostOption{shard.Intercept(func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		if call.Method != "!list" {
			return next(ctx)
		}
		calls <- call
		if call.From.Name == "stranger" {
			return secret
		}
		return next(ctx)
	})}
	c.start("a")
	ctx := testContext(t)
	friends := fixture.NewAccountClient(c.dial("friend"))
	_, err := friends.Ref("x").Add(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, listed(t, friends.List(ctx)))
	first := <-calls
	require.Equal(t, "Account", first.Kind)
	require.Empty(t, first.ID)
	require.Equal(t, "friend", first.From.Name)
	for _, err := range fixture.NewAccountClient(c.dial("stranger")).List(ctx) {
		require.ErrorIs(t, err, shard.ErrRefused)
		require.ErrorContains(t, err, "the ids are secret")
	}
}

// TestListAtANodeWithoutALease: a home that has lost its lease does not answer.
func TestListAtANodeWithoutALease(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	ctx := testContext(t)
	accounts := fixture.NewAccountClient(c.dial("client"))
	_, err := accounts.Ref("x").Add(ctx, 1)
	require.NoError(t, err)
	c.nodes["a"].LoseLease()
	short, cancel := context.WithTimeout(ctx, testPatience/200)
	defer cancel()
	for id, err := range accounts.List(short) {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "list Account: shard ")
		require.ErrorContains(t, err, "did not answer")
		require.Empty(t, id)
	}
}

// numberLister is an invoker of a type with integer ids, which records what it is asked to list.
type numberLister struct {
	codegen.Invoker
	ids   []string
	asked codegen.Listing
}

func (l *numberLister) List(_ context.Context, asked codegen.Listing) iter.Seq2[string, error] {
	l.asked = asked
	return func(yield func(string, error) bool) {
		for _, id := range l.ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

func TestListOfNumbers(t *testing.T) {
	type number uint16
	l := &numberLister{ids: []string{"10", "7"}}
	list := func(opts ...shard.ListOption) iter.Seq2[number, error] {
		format := func(n number) (string, error) { return codegen.FormatUintID(n), nil }
		return shard.ListEntities(t.Context(), l, format, codegen.ParseUintID[number], opts...)
	}
	for _, test := range []struct {
		opts []shard.ListOption
		want codegen.Listing
	}{
		{nil, codegen.Listing{}},
		{[]shard.ListOption{shard.Active(), shard.Prefix("1")}, codegen.Listing{Prefix: "1", Active: true}},
		{[]shard.ListOption{shard.After(number(0))}, codegen.Listing{After: "0"}},
		{[]shard.ListOption{shard.After(number(10))}, codegen.Listing{After: "10"}},
		{[]shard.ListOption{shard.After("10")}, codegen.Listing{After: "10"}},
		{[]shard.ListOption{shard.After("")}, codegen.Listing{}},
		{[]shard.ListOption{shard.After(nil)}, codegen.Listing{}},
	} {
		require.Equal(t, []number{10, 7}, listed(t, list(test.opts...)))
		require.Equal(t, test.want, l.asked)
	}
	for _, err := range list(shard.After(10)) {
		require.EqualError(t, err, "list: shard.After: the id is of type int (want shard_test.number)")
	}
	l.ids = []string{"7", "seven", "8"}
	var got []number
	var last error
	for n, err := range list() {
		got, last = append(got, n), err
	}
	require.Equal(t, []number{7, 0}, got)
	require.ErrorContains(t, last, `"seven"`)
	require.ErrorContains(t, last, "was its type changed?")
}

// TestOnlyListsAreForShards: a call without an entity is refused, unless it asks for a page.
func TestOnlyListsAreForShards(t *testing.T) {
	c := newCluster(t, "a")
	home, evil := c.nodes["a"], c.dial("evil")
	accounts := fixture.NewAccountClient(evil)
	add := func(want int64) {
		t.Helper()
		got, err := accounts.Ref("bob").Add(testContext(t), 1)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	add(1)
	_, epoch := home.Placed("Account", "bob")
	refused := home.Counters()["refused"]
	for i, e := range []wire.Envelope{
		{Type: wire.TypeTell, Method: []byte("Add"), Payload: codegen.AppendInt(codegen.NewArgs(), 1, int64(100))},
		{Type: wire.TypeCall, ID: 1, Method: []byte("Add"), Payload: codegen.AppendInt(codegen.NewArgs(), 1, int64(100))},
		{Type: wire.TypeTell, Method: []byte(wire.MethodList)},
		{Type: wire.TypeTell, Method: []byte(wire.MethodFind)},
		{Type: wire.TypeCall, ID: 1, Method: []byte(wire.MethodList), Payload: []byte{0xff}},
	} {
		e.Epoch, e.Entity = epoch, []byte{}
		evil.Inject(home.Peer(), "Account", "bob", e)
		add(2 + int64(i)) // behind the injected envelope
	}
	require.Equal(t, refused+4, home.Counters()["refused"], "all but the page, whose request does not decode")
	require.Equal(t, []string{"bob"}, listed(t, accounts.List(testContext(t))))
	require.NoError(t, home.Err())
}
