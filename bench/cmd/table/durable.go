package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/bench/limit"
	"github.com/shardgen/shardgen/bench/load"
	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	measures "github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/runtime/placement"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

const manyCallers = 4096

// warmCalls is how many calls each caller makes before the measurement.
const warmCalls = 3

// durable compares durable calls with publishes by hand and appends to bare logs, on one server and
// on three. A lone volatile call's p50 is subtracted from a lone durable one's.
func durable(ctx context.Context, s settings, _ string) error {
	for _, replicas := range []int{1, 3} {
		// -match may name one number of replicas.
		if other := fmt.Sprintf(", R%d", 4-replicas); strings.Contains(s.match, other) {
			continue
		}
		if err := durableOn(ctx, s, replicas); err != nil {
			return fmt.Errorf("%d replicas: %w", replicas, err)
		}
	}
	return nil
}

func durableOn(ctx context.Context, s settings, replicas int) error {
	folder, err := os.MkdirTemp("", "shardgen-table-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	store, err := storeServers(folder, replicas)
	if err != nil {
		return err
	}
	defer store.stop()
	url := store.url
	raw, err := limit.NewPublishes(ctx, url, replicas, entities)
	if err != nil {
		return err
	}
	defer raw.Close()
	bare, err := newBareLogs(ctx, url, replicas)
	if err != nil {
		return err
	}
	defer bare.backend.Close()
	node, closeNode, err := walletNode(ctx, url, "wallets", "n1", replicas)
	if err != nil {
		return err
	}
	defer closeNode()
	refs, err := wallets(ctx, node)
	if err != nil {
		return err
	}
	volatile := fixture.NewAccountClient(node).Ref("account")
	if _, err := volatile.Add(ctx, 1); err != nil {
		return err
	}
	on := fmt.Sprintf(", R%d", replicas)
	lone := contestant{"durable", func(d time.Duration) (measure, error) {
		without, err := load.Run(1, d/10, func(int, int) error {
			_, err := volatile.Add(ctx, 1)
			return err
		})
		if err != nil {
			return without, err
		}
		m, err := load.Run(1, d, func(w, i int) error {
			_, err := refs[load.Pick(w, i, len(refs))].Add(ctx, 1)
			return err
		})
		m.P50 -= without.P50
		return m, err
	}}
	groups := []group{
		{[]contestant{lone, lonePublishes(raw), bare.appenders(1)}, withCPU(row{title: "lone call to a durable entity, p50 less that of a volatile call" + on, unit: "µs", figure: p50, less: true, target: "≥ 0.8× of an acknowledged publish"})},
		{[]contestant{appended(node, adders(ctx, refs, callers)), manyPublishes(raw, callers), bare.appenders(callers)}, append(withCPU(row{title: "calls to durable entities, 256 callers" + on, unit: "/s", figure: perSecond, target: "≥ 2×"}, row{title: "its p99", unit: "µs", figure: p99, less: true}), row{room: 2}, perAppend)},
		{[]contestant{appended(node, adders(ctx, refs, manyCallers)), manyPublishes(raw, manyCallers), bare.appenders(manyCallers)}, append(withCPU(row{title: "calls to durable entities, 4,096 callers" + on, unit: "/s", figure: perSecond, target: "≥ 4×"}, row{title: "its p99", unit: "µs", figure: p99, less: true}), row{room: 4}, perAppend)},
	}
	for _, g := range groups {
		if !strings.Contains(g.rows[0].title, s.match) {
			continue
		}
		for i := range g.contestants {
			g.contestants[i] = store.counted(g.contestants[i])
		}
		if err := g.profiled(s.profile).print(os.Stdout, s.rounds, s.time); err != nil {
			return err
		}
	}
	if s.match != "" {
		return nil
	}
	return durableHomes(ctx, s, url, replicas, refs, raw)
}

var perAppend = row{title: "its commits in one append", unit: "", figure: calls}

// withCPU adds rows with a call's or publish's processor time: one for the process, one for the
// servers.
func withCPU(rows ...row) []row {
	return append(rows,
		row{title: "its processor time, in the process", unit: "ns", figure: cpu, less: true},
		row{title: "its processor time, in the servers", unit: "ns", figure: servers, less: true})
}

// durableHomes measures calls after shards moved to two more processes.
func durableHomes(ctx context.Context, s settings, url string, replicas int, refs []bank.WalletRef, raw *limit.Publishes) error {
	for i := range 2 {
		c, _, err := spawn(url, fmt.Sprint("wallets-r", replicas), "wallets", "host"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		defer func() { _ = c.End() }()
	}
	time.Sleep(5 * time.Second) // until rebalancing has given shards to the members that joined later
	g := group{[]contestant{adders(ctx, refs, callers), manyPublishes(raw, callers)}, []row{{title: fmt.Sprintf("calls to durable entities of three processes, 256 callers, R%d", replicas), unit: "/s", figure: perSecond}}}
	return g.print(os.Stdout, s.rounds, s.time)
}

// appended returns c, which now also measures commits per append.
func appended(node *shard.Node, c contestant) contestant {
	return contestant{c.name, func(d time.Duration) (measure, error) {
		var appends, commits atomic.Int64
		defer node.Measure(measures.Meter{StoreAppend: func(a measures.Append) {
			appends.Add(1)
			commits.Add(int64(a.Commits))
		}})()
		m, err := c.run(d)
		m.PerAppend = float64(commits.Load()) / float64(max(appends.Load(), 1))
		return m, err
	}}
}

// adders lets n callers, each with its own context, call random durable entities.
func adders(ctx context.Context, refs []bank.WalletRef, n int) contestant {
	return contestant{"shardgen", func(d time.Duration) (measure, error) {
		own := make([]context.Context, n)
		for w := range own {
			c, cancel := context.WithCancel(ctx)
			defer cancel()
			own[w] = c
		}
		return load.Load{Warm: warmCalls}.Run(n, d, func(w, i int) error {
			_, err := refs[load.Pick(w, i, len(refs))].Add(own[w], 1)
			return err
		})
	}}
}

func walletNode(ctx context.Context, url, cluster, name string, replicas int, options ...shard.HostOption) (node *shard.Node, stop func(), err error) {
	backend, err := natsstore.Open(ctx, url, natsstore.Config{Name: cluster, Replicas: replicas})
	if err != nil {
		return nil, nil, err
	}
	cfg := process.Config(url, cluster, name)
	cfg.Store = backend
	node = shard.New(cfg)
	err = errors.Join(
		bank.HostWallet(node, func() *bank.Wallet { return &bank.Wallet{} }, append([]shard.HostOption{shard.IdleAfter(0)}, options...)...),
		fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, shard.IdleAfter(0)),
	)
	if err == nil {
		err = node.Start(ctx)
	}
	if err != nil {
		backend.Close()
		return nil, nil, err
	}
	return node, func() {
		leave, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = node.Shutdown(leave)
		backend.Close()
	}, nil
}

// wallets calls each of the entities once.
func wallets(ctx context.Context, c shard.Caller) ([]bank.WalletRef, error) {
	refs := walletRefs(c, entities)
	return refs, addToAll(ctx, refs)
}

func addToAll(ctx context.Context, refs []bank.WalletRef) (err error) {
	errs := make(chan error, callers)
	for w := range callers {
		go func() {
			var err error
			for i := w; i < len(refs) && err == nil; i += callers {
				_, err = refs[i].Add(ctx, 1)
			}
			errs <- err
		}()
	}
	for range callers {
		err = errors.Join(err, <-errs)
	}
	return err
}

func walletRefs(c shard.Caller, n int) []bank.WalletRef {
	client := bank.NewWalletClient(c)
	refs := make([]bank.WalletRef, n)
	for i := range refs {
		refs[i] = client.Ref(id(i))
	}
	return refs
}

// walletShards is the number of shards of type Wallet.
const walletShards = 64

func inShard(number uint32, n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		id := "in-" + strconv.Itoa(i)
		if placement.ShardOf(xxhash.Sum64String(id), walletShards) == walletShards+number {
			ids = append(ids, id)
		}
	}
	return ids
}
