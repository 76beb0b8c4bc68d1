package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/cluster/clusterproviders/automanaged"
	"github.com/asynkron/protoactor-go/cluster/identitylookup/disthash"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// protoTimeout is twice the default of Config.CallTimeout.
const protoTimeout = 10 * time.Second

// protoEntity echoes bytes, counts texts and numbers, and answers the empty message with the count.
type protoEntity struct{ told int64 }

func (e *protoEntity) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *wrapperspb.BytesValue:
		c.Respond(m)
	case *wrapperspb.StringValue:
		e.told++
	case *wrapperspb.Int64Value:
		e.told++
		c.Respond(wrapperspb.Int64(e.told))
	case *emptypb.Empty:
		c.Respond(wrapperspb.Int64(e.told))
	}
}

var protoProps = actor.PropsFromProducer(func() actor.Actor { return new(protoEntity) })

func newProtoSystem() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
}

type protos struct {
	none
	closers
	root *actor.RootContext
	pids []*actor.PID
	// Messages that are sent again and again, and never changed.
	one, empty, nothing proto.Message
	text                proto.Message // a tell with a payload
}

func newProtos(system *actor.ActorSystem, end ...io.Closer) *protos {
	return &protos{
		closers: end, root: system.Root,
		one: wrapperspb.Int64(1), empty: new(emptypb.Empty), nothing: wrapperspb.String(""), text: wrapperspb.String(textOf(64)),
	}
}

func request[M proto.Message](p *protos, i int, m proto.Message) (answer M, err error) {
	got, err := p.root.RequestFuture(p.pids[i], m, protoTimeout).Result()
	if err != nil {
		return answer, err
	}
	answer, ok := got.(M)
	if !ok {
		return answer, fmt.Errorf("answer has type %T, want %T", got, answer)
	}
	return answer, nil
}

func (p *protos) add(_, i int) error {
	_, err := request[*wrapperspb.Int64Value](p, i, p.one)
	return err
}

func (p *protos) echo(_, i int, payload []byte) error {
	got, err := request[*wrapperspb.BytesValue](p, i, wrapperspb.Bytes(payload))
	return sameLength(got.GetValue(), payload, err)
}

func (p *protos) tell(_, i int, payload []byte) error {
	m := p.nothing
	if payload != nil {
		m = p.text
	}
	p.root.Send(p.pids[i], m)
	return nil
}

func (p *protos) told(_, i int) (int64, error) {
	got, err := request[*wrapperspb.Int64Value](p, i, p.empty)
	return got.GetValue(), err
}

func (p *protos) Close() error { return p.closers.Close() }

func localProto(_ context.Context, _ setup, n int) (entities, error) {
	system := newProtoSystem()
	p := newProtos(system, closing(system.Shutdown))
	for range n {
		p.pids = append(p.pids, p.root.Spawn(protoProps))
	}
	_, err := total(p, n)
	return p, err
}

func hostProto(_ context.Context, _ setup, n int) (string, io.Closer, error) {
	system := newProtoSystem()
	r := remote.NewRemote(system, remote.Configure("127.0.0.1", 0))
	r.Start()
	for i := range n {
		if _, err := system.Root.SpawnNamed(protoProps, id(i)); err != nil {
			return "", nil, err
		}
	}
	return system.Address(), closing(func() { r.Shutdown(false) }), nil
}

func dialProto(_ context.Context, s setup, n int) (entities, error) {
	system := newProtoSystem()
	r := remote.NewRemote(system, remote.Configure("127.0.0.1", 0))
	r.Start()
	p := newProtos(system, closing(func() { r.Shutdown(false) }))
	for i := range n {
		p.pids = append(p.pids, actor.NewPID(s.address, id(i)))
	}
	_, err := total(p, n)
	return p, err
}

func idleProto(context.Context, setup) (func(int) error, io.Closer, error) {
	system := newProtoSystem()
	p := newProtos(system)
	return func(i int) error {
		pid, err := p.root.SpawnNamed(protoProps, id(i))
		if err != nil {
			return err
		}
		_, err = p.root.RequestFuture(pid, p.one, protoTimeout).Result()
		return err
	}, closing(system.Shutdown), nil
}

const protoKind = "entity"

type protoMember struct{ *cluster.Cluster }

func (m protoMember) call(id string) error {
	_, err := m.Request(id, protoKind, wrapperspb.Int64(1), cluster.WithTimeout(protoTimeout))
	return err
}

func (m protoMember) Close() error {
	m.Shutdown(false)
	return nil
}

func joinProto(ctx context.Context, s setup) (member, error) {
	var hosts []string
	for i := range members {
		hosts = append(hosts, "127.0.0.1:"+strconv.Itoa(s.port(i, 0)))
	}
	provider := automanaged.NewWithConfig(2*time.Second, s.port(s.number, 0), hosts...) // 2s is its default
	c := cluster.New(newProtoSystem(), cluster.Configure(s.cluster, provider, disthash.New(), remote.Configure("127.0.0.1", 0),
		cluster.WithKinds(cluster.NewKind(protoKind, protoProps))))
	c.StartMember()
	return protoMember{c}, await(ctx, func() bool { return c.MemberList.Length() == members })
}
