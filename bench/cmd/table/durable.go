package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/fixture/vault"
	"github.com/shardgen/shardgen/internal/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// commitBytes is the payload of a raw publish: about as much as the commit of one turn.
const commitBytes = 128

// manyCallers is the number of callers in the second row of commits.
const manyCallers = 4096

// durable compares calls to durable entities with volatile ones and with publishes by
// hand, on one server and on three.
func durable(ctx context.Context, s settings, _ string) error {
	for _, replicas := range []int{1, 3} {
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
	url, stop, err := storeServers(folder, replicas)
	if err != nil {
		return err
	}
	defer stop()
	raw, err := newPublishes(ctx, url, replicas)
	if err != nil {
		return err
	}
	defer raw.conn.Close()
	node, closeNode, err := vaultNode(ctx, url, "vaults", "n1", replicas)
	if err != nil {
		return err
	}
	defer closeNode()
	refs, err := vaults(ctx, node)
	if err != nil {
		return err
	}
	volatile := fixture.NewAccountClient(node).Ref("account")
	if _, err := volatile.Add(ctx, 1); err != nil {
		return err
	}
	on := fmt.Sprintf(", R%d", replicas)
	lone := contestant{"durable", func(d time.Duration) (measure, error) {
		return load(1, d, func(w, i int) error {
			_, err := refs[pick(w, i, len(refs))].Add(ctx, 1)
			return err
		})
	}}
	groups := []group{
		{[]contestant{lone, raw.lone()}, []row{{title: "lone call to a durable entity, p50" + on, unit: "µs", figure: p50, less: true, target: "≥ 0.8× of an acknowledged publish"}}},
		{[]contestant{adders(ctx, refs, callers), raw.many(callers)}, []row{{title: "calls to durable entities, 256 callers" + on, unit: "/s", figure: perSecond, target: "≥ 2×"}, {title: "its p99", unit: "µs", figure: p99, less: true}}},
		{[]contestant{adders(ctx, refs, manyCallers), raw.many(manyCallers)}, []row{{title: "calls to durable entities, 4,096 callers" + on, unit: "/s", figure: perSecond, target: "≥ 4×"}, {title: "its p99", unit: "µs", figure: p99, less: true}}},
	}
	if replicas == 1 {
		groups = append(groups, group{[]contestant{
			{"//shard:read", func(d time.Duration) (measure, error) {
				return bulk(1, d, func(int, int) error {
					_, err := refs[0].Get(ctx)
					return err
				})
			}},
			{"volatile call", func(d time.Duration) (measure, error) {
				return bulk(1, d, func(int, int) error {
					_, err := volatile.Get(ctx)
					return err
				})
			}},
		}, []row{{title: "`//shard:read` of a durable entity, in one process", unit: "ns", figure: nanos, less: true, target: "≥ 0.9×"}}})
	}
	for _, g := range groups {
		if err := g.print(os.Stdout, s.rounds, s.time); err != nil {
			return err
		}
	}
	return durableHomes(ctx, s, url, replicas, refs, raw)
}

// durableHomes has two more processes take their share of the shards.
func durableHomes(ctx context.Context, s settings, url string, replicas int, refs []vault.VaultRef, raw *publishes) error {
	for i := range 2 {
		c, _, err := spawn(url, fmt.Sprint("vaults-r", replicas), "vaults", "host"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		defer func() { _ = c.end() }()
	}
	time.Sleep(5 * time.Second) // shards spread over the members that came later
	g := group{[]contestant{adders(ctx, refs, callers), raw.many(callers)}, []row{{title: fmt.Sprintf("calls to durable entities of three processes, 256 callers, R%d", replicas), unit: "/s", figure: perSecond}}}
	return g.print(os.Stdout, s.rounds, s.time)
}

// storeServers starts so many servers with JetStream below the folder.
func storeServers(folder string, n int) (url string, stop func(), err error) {
	if n == 1 {
		server, err := natsproc.Run("-js", "-sd", folder)
		if err != nil {
			return "", nil, err
		}
		return server.URL(), func() { _ = server.Kill() }, nil
	}
	var folders []string
	for i := range n {
		folders = append(folders, filepath.Join(folder, strconv.Itoa(i)))
	}
	servers, err := natsproc.RunStores(folders...)
	if err != nil {
		return "", nil, err
	}
	return servers[0].URL(), func() {
		for _, server := range servers {
			_ = server.Kill()
		}
	}, nil
}

// vaultNode starts a node that hosts vaults and accounts.
func vaultNode(ctx context.Context, url, cluster, name string, replicas int, options ...shard.HostOption) (node *shard.Node, stop func(), err error) {
	backend, err := natsstore.Open(ctx, url, natsstore.Config{Name: cluster, Replicas: replicas})
	if err != nil {
		return nil, nil, err
	}
	cfg := config(url, cluster, name)
	cfg.Store = backend
	node = shard.New(cfg)
	err = errors.Join(
		vault.HostVault(node, func() *vault.Vault { return &vault.Vault{} }, append([]shard.HostOption{shard.IdleAfter(0)}, options...)...),
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

// vaults returns references to durable entities, all called once.
func vaults(ctx context.Context, c shard.Caller) ([]vault.VaultRef, error) {
	refs := vaultRefs(c, entities)
	return refs, addToAll(ctx, refs)
}

// addToAll calls each entity once, from many goroutines.
func addToAll(ctx context.Context, refs []vault.VaultRef) (err error) {
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

// adders is so many callers of durable entities at random.
func adders(ctx context.Context, refs []vault.VaultRef, n int) contestant {
	return contestant{"shardgen", func(d time.Duration) (measure, error) {
		return load(n, d, func(w, i int) error {
			_, err := refs[pick(w, i, len(refs))].Add(ctx, 1)
			return err
		})
	}}
}

// publishes writes each entity's state by hand to a subject of its own, by
// compare-and-set on its last write, as one would without this project.
type publishes struct {
	conn *nats.Conn
	js   jetstream.JetStream
	last []uint64 // by entity; each has one caller
}

func newPublishes(ctx context.Context, url string, replicas int) (*publishes, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*manyCallers))
	if err == nil {
		err = createStream(ctx, js, jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.>"}, MaxMsgsPerSubject: 1, Replicas: replicas, Storage: jetstream.FileStorage})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &publishes{conn: conn, js: js, last: make([]uint64, entities)}, nil
}

// createStream tries until the servers have a leader.
func createStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (err error) {
	for range 30 {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err = js.CreateStream(try, c)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// publish writes an entity's state and waits for the acknowledgement.
func (p *publishes) publish(entity int) error {
	m := &nats.Msg{Subject: "raw." + strconv.Itoa(entity), Data: make([]byte, commitBytes)}
	future, err := p.js.PublishMsgAsync(m, jetstream.WithExpectLastSequencePerSubject(p.last[entity]))
	if err != nil {
		return err
	}
	select {
	case ack := <-future.Ok():
		p.last[entity] = ack.Sequence
		return nil
	case err := <-future.Err():
		return err
	}
}

func (p *publishes) lone() contestant {
	return contestant{"publish", func(d time.Duration) (measure, error) {
		return load(1, d, func(w, i int) error { return p.publish(pick(w, i, entities)) })
	}}
}

// many has so many callers, each with entities of its own, so that none waits for another.
func (p *publishes) many(n int) contestant {
	return contestant{"publishes", func(d time.Duration) (measure, error) {
		return load(n, d, func(w, i int) error { return p.publish(w + n*pick(w, i, entities/n)) })
	}}
}
