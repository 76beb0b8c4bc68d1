package durable

import (
	"context"
	"fmt"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// A shelf is the store of package memory. When a request reaches it, and whether its answer
// does, is decided by the simulation; its effect is decided by the store.
type shelf struct {
	s      *server
	disk   *memory.Server
	homes  store.Shards
	judges store.Shards // without faults
	next   memory.Fault // meets the next operation of homes
}

func newShelf(s *server) *shelf {
	x := &shelf{s: s, disk: memory.NewAt(s.w.clock)}
	homes := x.disk.Client()
	homes.Fault(func(memory.Op) memory.Fault { return x.next })
	x.homes, x.judges = homes.Shards(), x.disk.Client().Shards()
	return x
}

func shardAt(shard int) store.Shard { return store.Shard{Type: logName, Number: shard} }

// serve carries a request out, at one moment.
func (x *shelf) serve(from *home, shard int, r durable.Request) (durable.Response, error) {
	x.next = memory.Fault{Follower: x.s.w.chance(x.s.trouble.stale)}
	if x.next.Follower {
		x.disk.Lag(x.s.w.random.IntN(20))
	}
	if r.Op == durable.OpPut && x.s.w.chance(x.s.trouble.loses) {
		x.next.Loss = memory.LoseHalf
	}
	if r.Op == durable.OpPut && x.head(shard).Revision == r.Head.Revision {
		if err := x.s.judge.put(from.incarnation, shard, r.Changes); err != nil {
			return durable.Response{}, err
		}
	}
	a, err := x.ask(shard, r)
	a.Outcome, a.Err = durable.OutcomeOf(r.Op, err), err
	switch {
	case r.Op == durable.OpAppend && err == nil:
		return a, x.s.judge.append(shard, a.Position, r.Data)
	case r.Op == durable.OpSetHead && err == nil:
		return a, x.s.judge.head(shard, x.head(shard))
	case r.Op == durable.OpPut, r.Op == durable.OpTrim:
		return a, x.s.judge.recoverable(shard)
	}
	return a, nil
}

func (x *shelf) ask(shard int, r durable.Request) (a durable.Response, err error) {
	ctx, at := context.Background(), shardAt(shard)
	switch r.Op {
	case durable.OpHead:
		a.Head, err = x.homes.Head(ctx, at)
	case durable.OpSetHead:
		a.Revision, err = x.homes.SetHead(ctx, at, r.Head)
	case durable.OpAppend:
		a.Position, err = x.homes.Append(ctx, at, r.Expect, r.Data)
	case durable.OpRead:
		a.Appends, err = x.homes.Read(ctx, at, r.From, r.To)
	case durable.OpGet:
		a.Head, a.Records, err = x.homes.Get(ctx, at, r.IDs, r.AtLeast)
	case durable.OpPut:
		a.Revision, err = x.homes.Put(ctx, at, r.Head.Revision, r.Changes)
	case durable.OpTrim:
		err = x.homes.Trim(ctx, at, r.Head)
	default:
		err = fmt.Errorf("op %d", r.Op)
	}
	return a, err
}

// restart has the server read its disk, which has all.
func (x *shelf) restart() {
	x.disk.Stop()
	x.disk.Start(0)
}

// head is the shard's head, without staleness.
func (x *shelf) head(shard int) store.Head {
	h, err := x.judges.Head(context.Background(), shardAt(shard))
	x.must(err)
	return h
}

func (x *shelf) record(shard int, id string) store.Record {
	_, all, err := x.judges.Get(context.Background(), shardAt(shard), []string{id}, store.None)
	x.must(err)
	return all[0]
}

// whole reports whether the log is there from a position on.
func (x *shelf) whole(shard int, since store.Position) bool {
	_, err := x.judges.Read(context.Background(), shardAt(shard), since, since)
	return err == nil
}

// must is for requests that cannot fail.
func (x *shelf) must(err error) {
	if err != nil {
		x.s.w.fail("the store: %v", err)
	}
}
