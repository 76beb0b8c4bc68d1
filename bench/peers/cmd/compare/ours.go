package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

func id(i int) string { return "entity-" + strconv.Itoa(i) }

// textOf is a text of so many bytes.
func textOf(n int) string { return strings.Repeat("x", n) }

// accounts are entities of this project.
type accounts struct {
	none
	closers
	ctx   context.Context
	refs  []fixture.AccountRef
	tells []fixture.AccountTell
	text  string // of a tell with a payload
}

func newAccounts(ctx context.Context, c shard.Caller, n int, end ...io.Closer) (*accounts, error) {
	a := &accounts{closers: end, ctx: ctx, text: textOf(64)}
	client := fixture.NewAccountClient(c)
	for i := range n {
		a.refs = append(a.refs, client.Ref(id(i)))
		a.tells = append(a.tells, client.Tell(id(i)))
	}
	_, err := total(a, n) // all are called once
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

// sameLength checks an answer.
func sameLength(got, want []byte, err error) error {
	if err == nil && len(got) != len(want) {
		return fmt.Errorf("answer of %d bytes, want %d", len(got), len(want))
	}
	return err
}

func (a *accounts) tell(_, i int, payload []byte) error {
	return patiently(func() error {
		if payload == nil {
			return a.tells[i].Add(a.ctx, 1)
		}
		return a.tells[i].Fetch(a.ctx, a.text) // it counts, and has an argument of that length
	})
}

func (a *accounts) told(_, i int) (n int64, err error) {
	err = patiently(func() (err error) {
		n, err = a.refs[i].Get(a.ctx)
		return err
	})
	return n, err
}

// patiently tries until the entity's mailbox has room. Those of other projects have no bound.
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
	return dialWith(ctx, process.Config(s.url, s.address, "caller"), n)
}

func dialWith(ctx context.Context, cfg shard.Config, n int) (*accounts, error) {
	conn, err := shard.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return newAccounts(ctx, conn, n, conn)
}

func hostDirect(ctx context.Context, s setup, _ int) (string, io.Closer, error) {
	node, err := process.Member(ctx, process.Direct(s.url, s.cluster, "host"))
	return s.cluster, node, err
}

// dialDirect returns when calls go directly.
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

// byID are accounts without references.
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

// idleReferences keeps a reference of each kind to each entity.
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
