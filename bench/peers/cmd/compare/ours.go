package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

func id(i int) string { return "entity-" + strconv.Itoa(i) }

func textOf(n int) string { return strings.Repeat("x", n) }

type accounts struct {
	none
	closers
	ctx   context.Context
	refs  []fixture.AccountRef
	tells []fixture.AccountTell
	text  string // the payload of a tell
}

func newAccounts(ctx context.Context, c shard.Caller, n int, end ...io.Closer) (*accounts, error) {
	a := &accounts{closers: end, ctx: ctx, text: textOf(64)}
	client := fixture.NewAccountClient(c)
	for i := range n {
		a.refs = append(a.refs, client.Ref(id(i)))
		a.tells = append(a.tells, client.Tell(id(i)))
	}
	_, err := total(a, n) // calls each entity once
	return a, err
}

func (a *accounts) add(_, i int) error {
	_, err := a.refs[i].Add(a.ctx, 1)
	return err
}

func (a *accounts) echo(_, i int, payload []byte) error {
	got, err := a.refs[i].Echo(a.ctx, payload)
	return sameLength(got, payload, err)
}

func sameLength(got, want []byte, err error) error {
	if err == nil && len(got) != len(want) {
		return fmt.Errorf("answer has %d bytes, want %d", len(got), len(want))
	}
	return err
}

func (a *accounts) tell(_, i int, payload []byte) error {
	return patiently(func() error {
		if payload == nil {
			return a.tells[i].Add(a.ctx, 1)
		}
		return a.tells[i].Fetch(a.ctx, a.text) // Fetch counts, and has an argument of that length
	})
}

func (a *accounts) told(_, i int) (n int64, err error) {
	err = patiently(func() (err error) {
		n, err = a.refs[i].Get(a.ctx)
		return err
	})
	return n, err
}

// patiently repeats f while a mailbox is full. Other projects' mailboxes are unbounded.
func patiently(f func() error) error {
	for {
		if err := f(); !errors.Is(err, shard.ErrOverloaded) {
			return err
		}
		runtime.Gosched()
	}
}

func (a *accounts) Close() error { return a.closers.Close() }

func localAccounts(ctx context.Context, s setup, n int) (entities, error) {
	node, err := process.Member(ctx, process.Config(s.url, s.cluster, "node"))
	if err != nil {
		return nil, err
	}
	return newAccounts(ctx, node, n, node)
}

func hostAccounts(ctx context.Context, s setup, _ int) (string, io.Closer, error) {
	node, err := process.Member(ctx, process.Config(s.url, s.cluster, "host"))
	return s.cluster, node, err
}

func dialAccounts(ctx context.Context, s setup, n int) (entities, error) {
	conn, err := shard.Dial(ctx, process.Config(s.url, s.address, "caller"))
	if err != nil {
		return nil, err
	}
	return newAccounts(ctx, conn, n, conn)
}

func hostDirect(ctx context.Context, s setup, _ int) (string, io.Closer, error) {
	node, err := process.Member(ctx, process.Direct(s.url, s.cluster, "host"))
	return s.cluster, node, err
}

// dialDirect dials, and awaits a direct lane.
func dialDirect(ctx context.Context, s setup, n int) (entities, error) {
	conn, err := shard.Dial(ctx, process.Direct(s.url, s.address, "caller"))
	if err != nil {
		return nil, err
	}
	a, err := newAccounts(ctx, conn, n, conn)
	if err != nil {
		return nil, err
	}
	return a, process.AwaitDirect(ctx, conn, a.refs[0])
}

type byID struct {
	*accounts
	client *fixture.AccountClient
	ids    []string
}

func (b byID) add(_, i int) error {
	_, err := b.client.Ref(b.ids[i]).Add(b.ctx, 1)
	return err
}

func localByID(ctx context.Context, s setup, n int) (entities, error) {
	node, err := process.Member(ctx, process.Config(s.url, s.cluster, "node"))
	if err != nil {
		return nil, err
	}
	a, err := newAccounts(ctx, node, n, node)
	if err != nil {
		return nil, err
	}
	b := byID{accounts: a, client: fixture.NewAccountClient(node)}
	for i := range n {
		b.ids = append(b.ids, id(i))
	}
	return b, nil
}

func idleAccounts(ctx context.Context, s setup) (func(int) error, io.Closer, error) {
	node, err := process.Member(ctx, process.Config(s.url, s.cluster, "node"))
	if err != nil {
		return nil, nil, err
	}
	client := fixture.NewAccountClient(node)
	return func(i int) error {
		_, err := client.Ref(id(i)).Add(ctx, 1)
		return err
	}, node, nil
}

// idleReferences keeps two references, for calls and tells, to each idle account.
func idleReferences(ctx context.Context, s setup) (func(int) error, io.Closer, error) {
	node, err := process.Member(ctx, process.Config(s.url, s.cluster, "node"))
	if err != nil {
		return nil, nil, err
	}
	a := &accounts{closers: closers{node}, ctx: ctx}
	client := fixture.NewAccountClient(node)
	a.refs, a.tells = make([]fixture.AccountRef, 0, idleEntities), make([]fixture.AccountTell, 0, idleEntities)
	return func(i int) error {
		a.refs, a.tells = append(a.refs, client.Ref(id(i))), append(a.tells, client.Tell(id(i)))
		return errors.Join(a.add(0, i), a.tell(0, i, nil))
	}, a, nil
}

// observe reports metrics of a process, and collects them each second until ctx ends.
func observe(ctx context.Context, p shardotel.Process) error {
	t := shardotel.New(shardotel.Options{})
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(t))
	_, err := t.Observe(p, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	go func() {
		for ctx.Err() == nil {
			var all metricdata.ResourceMetrics
			_ = reader.Collect(ctx, &all)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}()
	return err
}

func startMeasured(ctx context.Context, cfg shard.Config) (*shard.Node, error) {
	node, err := process.Member(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return node, observe(ctx, node)
}

func localMeasured(ctx context.Context, s setup, n int) (entities, error) {
	node, err := startMeasured(ctx, process.Config(s.url, s.cluster, "node"))
	if err != nil {
		return nil, err
	}
	return newAccounts(ctx, node, n, node)
}

func hostMeasured(ctx context.Context, s setup, _ int) (string, io.Closer, error) {
	node, err := startMeasured(ctx, process.Config(s.url, s.cluster, "host"))
	return s.cluster, node, err
}

func dialMeasured(ctx context.Context, s setup, n int) (entities, error) {
	conn, err := shard.Dial(ctx, process.Config(s.url, s.address, "caller"))
	if err != nil {
		return nil, err
	}
	if err := observe(ctx, conn); err != nil {
		return nil, err
	}
	return newAccounts(ctx, conn, n, conn)
}

// traced returns cfg with tracing of 1 % of the calls, up to the default bound. The spans are
// exported to nowhere.
func traced(cfg shard.Config) shard.Config {
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(nowhere{}))
	cfg.Tracing = shardotel.New(shardotel.Options{Tracers: tracers, Propagator: propagation.TraceContext{}, Ratio: 0.01})
	return cfg
}

type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

func localTraced(ctx context.Context, s setup, n int) (entities, error) {
	node, err := process.Member(ctx, traced(process.Config(s.url, s.cluster, "node")))
	if err != nil {
		return nil, err
	}
	return newAccounts(ctx, node, n, node)
}

func hostTraced(ctx context.Context, s setup, _ int) (string, io.Closer, error) {
	node, err := process.Member(ctx, traced(process.Config(s.url, s.cluster, "host")))
	return s.cluster, node, err
}

func dialTraced(ctx context.Context, s setup, n int) (entities, error) {
	conn, err := shard.Dial(ctx, traced(process.Config(s.url, s.address, "caller")))
	if err != nil {
		return nil, err
	}
	return newAccounts(ctx, conn, n, conn)
}

type accountMember struct {
	*shard.Node
	ctx    context.Context
	client *fixture.AccountClient
}

func (m accountMember) call(id string) error {
	_, err := m.client.Ref(id).Add(m.ctx, 1)
	return err
}

func joinAccounts(ctx context.Context, s setup) (member, error) {
	return join(ctx, process.Config(s.url, s.cluster, "node"+strconv.Itoa(s.number)))
}

func joinDirect(ctx context.Context, s setup) (member, error) {
	return join(ctx, process.Direct(s.url, s.cluster, "node"+strconv.Itoa(s.number)))
}

// join returns when the member knows the other two.
func join(ctx context.Context, cfg shard.Config) (member, error) {
	node, err := process.Member(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return accountMember{node, ctx, fixture.NewAccountClient(node)}, await(ctx, func() bool {
		up := 0
		for _, m := range node.Cluster().Members {
			if m.Status == shard.MemberUp {
				up++
			}
		}
		return up == members
	})
}

func await(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

type wallets struct {
	none
	closers
	ctx  context.Context
	refs []bank.WalletRef
}

func (v *wallets) add(_, i int) error {
	_, err := v.refs[i].Add(v.ctx, 1)
	return err
}

func (v *wallets) told(_, i int) (int64, error) { return v.refs[i].Get(v.ctx) }
func (v *wallets) Close() error                 { return v.closers.Close() }

func localWallets(ctx context.Context, s setup, n int) (entities, error) {
	backend, err := natsstore.Open(ctx, s.url, natsstore.Config{Name: s.cluster, Replicas: 1})
	if err != nil {
		return nil, err
	}
	cfg := process.Config(s.url, s.cluster, "node")
	cfg.Store = backend
	node := shard.New(cfg)
	v := &wallets{closers: closers{closing(backend.Close), node}, ctx: ctx}
	if err := bank.HostWallet(node, func() *bank.Wallet { return &bank.Wallet{} }, shard.IdleAfter(0)); err != nil {
		return nil, err
	}
	if err := node.Start(ctx); err != nil {
		return nil, err
	}
	client := bank.NewWalletClient(node)
	for i := range n {
		v.refs = append(v.refs, client.Ref(id(i)))
	}
	_, err = total(v, n)
	return v, err
}

type walletReads struct{ *wallets }

func (v walletReads) add(_, i int) error {
	_, err := v.refs[i].Get(v.ctx)
	return err
}

func localReads(ctx context.Context, s setup, n int) (entities, error) {
	es, err := localWallets(ctx, s, n)
	if err != nil {
		return nil, err
	}
	return walletReads{es.(*wallets)}, nil
}
