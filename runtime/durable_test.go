package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

// A wallets is a cluster of nodes that host wallets, over one store.
type wallets struct {
	t      *testing.T
	broker *memory.Broker
	store  *memorystore.Server
	nodes  map[string]*shard.Node
	own    map[string]*memorystore.Client // of each node
	tune   func(*shard.Config)
	opts   []shard.HostOption
	made   func(*shard.Node)
	others func(*bank.WalletClient, string) bank.WalletAPI // of each wallet; nil: without options
}

func newWallets(t *testing.T, names ...string) *wallets {
	v := &wallets{
		t: t, broker: memory.NewBroker(memory.Options{}), store: memorystore.New(),
		nodes: map[string]*shard.Node{}, own: map[string]*memorystore.Client{},
	}
	t.Cleanup(func() {
		for _, n := range v.nodes {
			_ = n.Close()
		}
	})
	for _, name := range names {
		v.start(name)
	}
	return v
}

func (v *wallets) config(name string) shard.Config {
	return shard.Config{Cluster: "test", Name: name, Transport: v.broker.Transport(), Logger: logger(name), CallTimeout: testPatience / 4}
}

func (v *wallets) start(name string) *shard.Node {
	v.t.Helper()
	n := v.node(name)
	require.NoError(v.t, n.Start(testContext(v.t)))
	v.nodes[name] = n
	return n
}

// node makes a node without starting it.
func (v *wallets) node(name string) *shard.Node {
	v.t.Helper()
	cfg := v.config(name)
	v.own[name] = v.store.Client()
	cfg.Store = v.own[name]
	if v.tune != nil {
		v.tune(&cfg)
	}
	n := shard.New(cfg)
	if v.made != nil {
		v.made(n)
	}
	client := bank.NewWalletClient(n)
	others := client.API
	if v.others != nil {
		others = func(id string) bank.WalletAPI { return v.others(client, id) }
	}
	require.NoError(v.t, bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{Others: others} }, v.opts...))
	return n
}

func (v *wallets) kill(name string) {
	v.t.Helper()
	_ = v.nodes[name].Close()
	delete(v.nodes, name)
}

func ref(n shard.Caller, id string, opts ...shard.CallOption) bank.WalletRef {
	return bank.NewWalletClient(n).Ref(id, opts...)
}

func total(t *testing.T, n shard.Caller, id string, want int64) {
	t.Helper()
	got, err := ref(n, id).Get(testContext(t))
	require.NoError(t, err)
	require.Equal(t, want, got, id)
}

// TestDurableStateSurvives: durable state survives a restart of all nodes, whatever a node was
// doing before.
func TestDurableStateSurvives(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	ctx := testContext(t)
	for i := range int64(50) {
		_, err := ref(v.nodes["a"], fmt.Sprint("v", i)).Add(ctx, i)
		require.NoError(t, err)
	}
	before, err := ref(v.nodes["a"], "v1").Epoch(ctx)
	require.NoError(t, err)
	v.kill("a")
	v.start("b")
	for i := range int64(50) {
		total(t, v.nodes["b"], fmt.Sprint("v", i), i)
	}
	why, err := ref(v.nodes["b"], "v7").Activated(ctx)
	require.NoError(t, err)
	require.Equal(t, "recovered", why)
	why, err = ref(v.nodes["b"], "new").Activated(ctx)
	require.NoError(t, err)
	require.Equal(t, "fresh", why)
	after, err := ref(v.nodes["b"], "v1").Epoch(ctx)
	require.NoError(t, err)
	require.Greater(t, after, before)
}

// TestDurableCallsAreAppliedOnceOverDeaths: no call is lost or applied twice while homes end, in
// order or by a crash.
func TestDurableCallsAreAppliedOnceOverDeaths(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a", "b", "c")
	conn, err := shard.Dial(testContext(t), v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	over := make(chan struct{})
	const callers = 8
	var sums [callers]int64
	var calls sync.WaitGroup
	for i := range callers {
		calls.Go(func() {
			r := ref(conn, fmt.Sprint("v", i))
			for {
				select {
				case <-over:
					return
				default:
				}
				got, err := r.Add(testContext(t), 1)
				if errors.Is(err, shard.ErrOverloaded) {
					continue // while one call waits for its home, others may exceed the number of remembered calls
				}
				if err != nil {
					t.Errorf("v%d: %v", i, err)
					return
				}
				if sums[i]++; got != sums[i] {
					t.Errorf("v%d has %d after %d calls", i, got, sums[i])
					return
				}
			}
		})
	}
	for i := range 3 {
		name := []string{"a", "b", "c"}[i]
		<-time.After(100 * time.Millisecond)
		if i%2 == 0 {
			v.kill(name)
		} else {
			require.NoError(t, v.nodes[name].Shutdown(testContext(t)))
			delete(v.nodes, name)
		}
		v.start(name + "2")
	}
	close(over)
	calls.Wait()
	for i, want := range sums {
		require.Positive(t, want)
		total(t, conn, fmt.Sprint("v", i), want)
	}
}

// TestDurableNothingIsAnsweredBeforeTheStoreHasIt: a call whose commit the store does not take gets
// no answer, and its outcome is unknown. Reads go on, and return the committed state.
func TestDurableNothingIsAnsweredBeforeTheStoreHasIt(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	n := v.nodes["a"]
	_, err := ref(n, "v").Add(testContext(t), 1)
	require.NoError(t, err)
	v.own["a"].Cut(true)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = ref(n, "v").Add(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, shard.Unknown, shard.OutcomeOf(err))
	v.own["a"].Cut(false)
	total(t, n, "v", 2)
}

// TestDurableErrorsPanicsAndEnds: the changes of a turn that returns an error are committed, those
// of a turn that panics are not. An entity that ended begins anew.
func TestDurableErrorsPanicsAndEnds(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	r, ctx := ref(v.nodes["a"], "v"), testContext(t)
	_, err := r.Add(ctx, 1)
	require.NoError(t, err)
	require.ErrorIs(t, r.Refuse(ctx, 10), bank.ErrRefused)
	require.ErrorIs(t, r.Break(ctx, 100), shard.ErrPanic)
	total(t, v.nodes["a"], "v", 11)
	err = r.Fill(ctx, 600<<10)
	require.ErrorContains(t, err, "too large")
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	total(t, v.nodes["a"], "v", 11)
	require.NoError(t, r.Leave(ctx))
	total(t, v.nodes["a"], "v", 0)
	v.kill("a")
	v.start("b")
	total(t, v.nodes["b"], "v", 0)
}

// TestDurableNestedCallsAndTells: the calls of a turn are part of its command, and its tells are
// sent when it is committed.
func TestDurableNestedCallsAndTells(t *testing.T) {
	v := newWallets(t, "a", "b")
	ctx := testContext(t)
	for i := range int64(20) {
		from, to := fmt.Sprint("from", i), fmt.Sprint("to", i)
		got, err := ref(v.nodes["a"], from).Send(ctx, to, i)
		require.NoError(t, err)
		require.Equal(t, -i, got)
		total(t, v.nodes["b"], to, i)
		require.NoError(t, bank.NewWalletClient(v.nodes["a"]).Tell(to).Put(ctx, 1))
	}
	for i := range int64(20) {
		require.Eventually(t, func() bool {
			got, err := ref(v.nodes["b"], fmt.Sprint("to", i)).Get(ctx)
			return err == nil && got == i+1
		}, testPatience, time.Millisecond)
	}
}

// TestDurableCommandIDOutlivesTheTable: after the shard has forgotten a command, the entity's
// record still has its answer: while the entity is active, passivated, after a full restart, and
// after its end.
func TestDurableCommandIDOutlivesTheTable(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	v.made = func(n *shard.Node) { n.ForgetCommands(time.Millisecond) }
	v.start("a")
	ctx := testContext(t)
	pay := func(n shard.Caller) {
		t.Helper()
		for range 2 { // the shard's table forgets the key at its next tick
			<-time.After(1100 * time.Millisecond)
			got, err := ref(n, "v", shard.CommandID("payment-1")).Add(ctx, 5)
			require.NoError(t, err)
			require.EqualValues(t, 5, got)
		}
		_, err := ref(n, "v", shard.CommandID("payment-1")).Add(ctx, 6)
		require.ErrorIs(t, err, shard.ErrCommandReused)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	}
	pay(v.nodes["a"])
	v.kill("a")
	v.start("b")
	pay(v.nodes["b"])
	total(t, v.nodes["b"], "v", 5)
	leave := func(n shard.Caller) {
		t.Helper()
		<-time.After(1100 * time.Millisecond)
		require.NoError(t, ref(n, "v", shard.CommandID("leave")).Leave(ctx))
	}
	leave(v.nodes["b"])
	_, err := ref(v.nodes["b"], "v").Add(ctx, 1)
	require.NoError(t, err)
	leave(v.nodes["b"])
	total(t, v.nodes["b"], "v", 1)
	require.NoError(t, v.nodes["b"].Shutdown(ctx))
	v.start("c")
	leave(v.nodes["c"])
	total(t, v.nodes["c"], "v", 1)
}

// TestDurableCommandIDAtABusyEntity: an entity gets more keys than it and its shard can keep with
// their answers. A call with the oldest key fails, and its error says that the command has run. A
// new key that could not be kept for ten minutes is refused.
func TestDurableCommandIDAtABusyEntity(t *testing.T) {
	t.Parallel()
	const keys = 300
	v := newWallets(t)
	v.made = func(n *shard.Node) { n.KeepCommands(20, keys) }
	v.start("a")
	ctx := testContext(t)
	pay := func(n string, key int) (int64, error) {
		return ref(v.nodes[n], "v", shard.CommandID(fmt.Sprint("payment-", key))).Add(ctx, 1)
	}
	for i := range keys {
		got, err := pay("a", i)
		require.NoError(t, err)
		require.EqualValues(t, i+1, got)
	}
	look := func(n string) {
		t.Helper()
		got, err := pay(n, 0)
		if n == "b" && err == nil { // it has the answer from the log
			require.EqualValues(t, 1, got)
		} else {
			require.ErrorIs(t, err, shard.ErrAnswerForgotten)
			require.Equal(t, shard.Executed, shard.OutcomeOf(err))
		}
		got, err = pay(n, keys-1)
		require.NoError(t, err)
		require.EqualValues(t, keys, got, "the answer of a late one is kept")
		_, err = pay(n, keys)
		require.ErrorIs(t, err, shard.ErrOverloaded)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
		total(t, v.nodes[n], "v", keys)
	}
	look("a")
	v.kill("a")
	v.start("b")
	look("b")
	_, err := ref(v.nodes["b"], "v").Add(ctx, 1)
	require.NoError(t, err, "a call without a key")
}

// TestDurableResultTooLarge: a call whose results are too large changes nothing, local or remote,
// however often it is sent.
func TestDurableResultTooLarge(t *testing.T) {
	v := newWallets(t, "a")
	ctx := testContext(t)
	conn, err := shard.Dial(ctx, v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	for name, caller := range map[string]shard.Caller{"near": v.nodes["a"], "far": conn} {
		for range 2 {
			_, err = ref(caller, "v", shard.CommandID(name)).Mint(ctx, 2<<20)
			require.ErrorIs(t, err, shard.ErrTooLarge, name)
			require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err), name)
		}
		_, err = ref(caller, "v").Mint(ctx, 700<<10)
		require.ErrorIs(t, err, shard.ErrTooLarge, "too large for the store, "+name)
		total(t, v.nodes["a"], "v", 0)
	}
}

// TestDurableCommandID: calls with one key are one command, from any process and over a restart.
// Calls with the key and other arguments fail.
func TestDurableCommandID(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	ctx := testContext(t)
	for range 2 {
		got, err := ref(v.nodes["a"], "v", shard.CommandID("payment-1")).Add(ctx, 5)
		require.NoError(t, err)
		require.EqualValues(t, 5, got)
	}
	conn, err := shard.Dial(ctx, v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	for name, caller := range map[string]shard.Caller{"near": v.nodes["a"], "far": conn} {
		r := ref(caller, "v", shard.CommandID("payment-1"))
		_, err := r.Add(ctx, 6)
		require.ErrorIs(t, err, shard.ErrCommandReused, name)
		require.ErrorContains(t, err, "shard.CommandID", name)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err), name)
		require.ErrorIs(t, r.Fill(ctx, 5), shard.ErrCommandReused, "%s, another method", name)
	}
	v.kill("a")
	v.start("b")
	got, err := ref(v.nodes["b"], "v", shard.CommandID("payment-1")).Add(ctx, 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, got)
	total(t, v.nodes["b"], "v", 5)
	_, err = ref(v.nodes["b"], "v", shard.CommandID("payment-2")).Add(ctx, 5)
	require.NoError(t, err)
	total(t, v.nodes["b"], "v", 10)
}

// TestEmptyCommandID: with an empty key, for example from a missing header, all calls of the
// reference fail. They do not become commands of their own.
func TestEmptyCommandID(t *testing.T) {
	v := newWallets(t, "a")
	ctx := testContext(t)
	conn, err := shard.Dial(ctx, v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	for name, caller := range map[string]shard.Caller{"near": v.nodes["a"], "far": conn} {
		r := ref(caller, "v", shard.CommandID(""))
		_, err := r.Add(ctx, 5)
		require.ErrorContains(t, err, "call Wallet/v.Add: the command id is empty (give shard.CommandID a key", name)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err), name)
		_, err = r.Get(ctx)
		require.ErrorContains(t, err, "command id is empty", name)
		err = bank.NewWalletClient(caller).Tell("v", shard.CommandID("")).Fill(ctx, 5)
		require.ErrorContains(t, err, "command id is empty", name)
	}
	total(t, conn, "v", 0)
}

// TestDurableEmptyAnswersAreReplayed: replaying an answer without results does not damage later
// answers.
func TestDurableEmptyAnswersAreReplayed(t *testing.T) {
	v := newWallets(t, "a")
	ctx := testContext(t)
	conn, err := shard.Dial(ctx, v.config("client"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = ref(conn, "v").Add(ctx, 7)
	require.NoError(t, err)
	for range 100 {
		require.NoError(t, ref(conn, "v", shard.CommandID("fill")).Fill(ctx, 1))
		total(t, conn, "v", 7)
	}
}

// TestDurableEntitiesArePassivated: an entity that was passivated comes back with its state.
func TestDurableEntitiesArePassivated(t *testing.T) {
	v := newWallets(t)
	v.opts = []shard.HostOption{shard.MaxActive(2)}
	v.start("a")
	ctx := testContext(t)
	for round := range int64(3) {
		for i := range 40 {
			got, err := ref(v.nodes["a"], fmt.Sprint("v", i)).Add(ctx, 1)
			require.NoError(t, err)
			require.Equal(t, round+1, got)
		}
	}
}

// TestDurableTypeNeedsItsStore: if the store is missing or belongs to another cluster, an error
// says so before the node joins.
func TestDurableTypeNeedsItsStore(t *testing.T) {
	v := newWallets(t)
	cfg := v.config("a")
	err := bank.HostWallet(shard.New(cfg), func() *bank.Wallet { return &bank.Wallet{} })
	require.ErrorContains(t, err, "Config.Store")

	v.start("b")
	cfg = v.config("c")
	cfg.Cluster, cfg.Store = "other", v.store.Client()
	n := shard.New(cfg)
	require.NoError(t, bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }))
	require.ErrorContains(t, n.Start(testContext(t)), "belongs to cluster test")
	_ = n.Close()
}

// TestDurableShardSaysWhatIsWrong: calls to a shard that cannot be recovered fail at once, with its
// name and the reason.
func TestDurableShardSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	ctx := testContext(t)
	_, err := ref(v.nodes["a"], "v").Add(ctx, 1)
	require.NoError(t, err)
	v.kill("a")
	raw := v.store.Client().Shards()
	damaged := 0
	for i := 64; i < 128; i++ {
		s := store.Shard{Type: "Wallet", Number: i}
		head, err := raw.Head(ctx, s)
		require.NoError(t, err)
		if head.Revision == store.None {
			continue
		}
		head.Value = []byte("damaged")
		_, err = raw.SetHead(ctx, s, head)
		require.NoError(t, err)
		damaged++
	}
	require.Positive(t, damaged)
	v.start("b")
	_, err = ref(v.nodes["b"], "v").Add(ctx, 1)
	require.ErrorContains(t, err, "Wallet/")
	require.ErrorContains(t, err, "corrupt")
	require.False(t, errors.Is(err, context.DeadlineExceeded), err)
}

// waitTurn calls Wait with ever longer deadlines, until one is long enough for its turn to begin.
func waitTurn(ctx context.Context, v bank.WalletAPI) (err error) {
	for d := 50 * time.Millisecond; ctx.Err() == nil; d *= 2 {
		short, cancel := context.WithTimeout(ctx, d)
		err = v.Wait(short, 1)
		cancel()
		if shard.OutcomeOf(err) != shard.NotExecuted {
			break
		}
	}
	return err
}

// TestDurableLocalCalls: a local call runs on its caller's goroutine unless the type's calls queue.
// It ends with its context, and blocks no other call if its method ends the goroutine.
func TestDurableLocalCalls(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]shard.HostOption{"inline": nil, "queued": {shard.Inline(false)}} {
		t.Run(name, func(t *testing.T) {
			v := newWallets(t)
			v.opts = opts
			n := v.start("n1")
			total(t, n, "a", 0) // the shard is open, so the call runs on this goroutine
			err := waitTurn(testContext(t), ref(n, "a"))
			require.Error(t, err)
			total(t, n, "a", 1) // the method's change stays, although its call has failed

			ended := make(chan bool)
			go func() {
				defer close(ended)
				_ = ref(n, "a").Exit(testContext(t), 1)
			}()
			<-ended
			total(t, n, "a", 1)
			got, err := ref(n, "a").Add(testContext(t), 1)
			require.NoError(t, err)
			require.Equal(t, int64(2), got)
		})
	}
}

// TestDurableReads: a read needs no write of its own, but is answered only when the store has the
// state that it saw. It knows its epoch, and cannot end its entity.
func TestDurableReads(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	r := ref(v.nodes["a"], "v")
	_, err := r.Add(testContext(t), 1)
	require.NoError(t, err)
	v.own["a"].Cut(true)
	total(t, v.nodes["a"], "v", 1)
	short, cancel := context.WithTimeout(testContext(t), 200*time.Millisecond)
	defer cancel()
	_, err = r.Add(short, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	other, cancelOther := context.WithTimeout(testContext(t), 200*time.Millisecond)
	defer cancelOther()
	_, err = r.Get(other)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it saw what the store has not taken")
	v.own["a"].Cut(false)
	total(t, v.nodes["a"], "v", 2)

	wrote, err := r.Epoch(testContext(t))
	require.NoError(t, err)
	seen, err := r.Seen(testContext(t))
	require.NoError(t, err)
	require.Equal(t, wrote, seen)
	require.ErrorContains(t, r.Stay(testContext(t)), "//shard:read")
	total(t, v.nodes["a"], "v", 2)
}

// TestDurableShardsOpenAboveALostTerm: the store has lost the record of the coordinator's terms, so
// a new cluster has a lower term than its shards have had. The homes report that, and the
// coordinator takes a higher term without a restart. Later it does so once more.
func TestDurableShardsOpenAboveALostTerm(t *testing.T) {
	t.Parallel()
	for name, lives := range map[string][2][]string{
		"a later term":  {{"a", "b", "c"}, {"d", "e"}},
		"the same term": {{"a"}, {"b"}},
	} {
		t.Run(name, func(t *testing.T) { testLostTerm(t, lives) })
	}
}

// testLostTerm runs processes one after the other; those of the second life begin without the
// record.
func testLostTerm(t *testing.T, lives [2][]string) {
	v := newWallets(t)
	want := int64(0)
	for _, name := range lives[0] {
		v.start(name)
		want++
		_, err := ref(v.nodes[name], "v").Add(testContext(t), 1)
		require.NoError(t, err)
		v.kill(name)
	}
	for _, name := range lives[1] {
		client, ctx := v.store.Client(), testContext(t)
		found, err := client.Get(ctx, "terms/test")
		require.NoError(t, err)
		require.NoError(t, client.Delete(ctx, "terms/test", found.Revision))
		v.start(name)
		want++
		require.Eventually(t, func() bool {
			_, err = ref(v.nodes[name], "v", shard.CommandID(name)).Add(ctx, 1)
			return err == nil
		}, testPatience, time.Second, "%v", &err)
		total(t, v.nodes[name], "v", want)
		v.kill(name)
	}
}
