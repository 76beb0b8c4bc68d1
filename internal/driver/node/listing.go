package node

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/listing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

var _ codegen.Lister = invoker{}

// listRemedy is the remedy in errors about a shard that did not answer.
const listRemedy = " (to go on, list again with shard.After of the last id; if the deadline passed, with a later one)"

// List yields the ids of the kind's entities: see [codegen.Lister]. It calls each shard itself;
// such a call is routed like calls to the shard's entities. The call is safe to repeat, so List
// sends it again even if it may have run.
func (p invoker) List(ctx context.Context, l codegen.Listing) iter.Seq2[string, error] {
	method := wire.MethodList
	if l.Index != "" {
		method = wire.MethodFind
	}
	return p.list(ctx, method, wire.ListRequest{Prefix: l.Prefix, After: l.After, To: l.To, Index: l.Index, Active: l.Active})
}

// Dues yields a [wire.DueKey] for each entity of the kind that has reminders, in the order of their
// due times. It yields only keys that are greater than after.
func Dues(ctx context.Context, k *Kind, after string) iter.Seq2[string, error] {
	return invoker{k}.list(ctx, wire.MethodDue, wire.ListRequest{After: after})
}

func (p invoker) list(ctx context.Context, method string, r wire.ListRequest) iter.Seq2[string, error] {
	k := p.kind
	if k.Err != nil {
		return func(yield func(string, error) bool) { yield("", fmt.Errorf("list %s: %w", k.Desc.Name, k.Err)) }
	}
	by := InvokerOf(k)
	lister := listing.Lister{
		Kind: k.Desc.Name, Shards: int(k.Shards), Remedy: listRemedy,
		Ask: func(ctx context.Context, shard int, request []byte) ([]byte, error) {
			r := &codegen.Ref{Invoker: by, Hash: uint64(shard) << k.shift}
			if err := by.Check(ctx, r, method); err != nil {
				return nil, p.listError(err)
			}
			page, err := by.Do(ctx, r, method, append(codegen.NewArgs(), request...))
			if err != nil {
				return nil, p.listError(err)
			}
			return slices.Clone(page), nil // it may be a small part of a frame
		},
	}
	turnOf(ctx).yieldLane()
	return lister.List(ctx, r)
}

// listError returns the cause of a failed call to a shard. It drops the description of the call,
// because the user did not make the call.
func (p invoker) listError(err error) error {
	if failed, ok := p.kind.Driver.Config.ReadCallError(err); ok && failed.Err != nil {
		return failed.Err
	}
	return err
}

// ofShard reports whether e is not a user's entity, but stands for its shard in a call to the shard
// itself.
func ofShard(e *region.Entity) bool { return e.ID == "" }

// listsShard reports whether an envelope without an entity is a call to its shard itself.
func listsShard(e *wire.Envelope) bool {
	switch string(e.Method) {
	case wire.MethodList, wire.MethodFind, wire.MethodDue:
		return e.Type == wire.TypeCall
	}
	return false
}

// list returns a page of the shard's ids. After the call arrived, its caller checked that this
// node's lease is valid. So this node was the shard's only home, and the page has everything that
// was acknowledged before the call.
func (s *HostedShard) list(r *encodedTurn, method string, args []byte) answer {
	request, err := wire.ParseListRequest(args)
	if err != nil {
		return answer{code: wire.CodeBadArgs, text: err.Error()}
	}
	if h := &s.Host.Desc; method != wire.MethodFind {
		request.Index = ""
	} else if !slices.ContainsFunc(h.Indexes, func(x codegen.Index) bool { return x.Kind == request.Index }) {
		return answer{code: wire.CodeRefused, text: fmt.Sprintf(
			"the program of node %s has no such index of %s (finish the roll-out of the program that has it)", s.driver().Local.Name, h.Name)}
	}
	limit, size := listing.Limits(&request, s.driver().MaxResult())
	if d := durableOf(&r.turn); d != nil && !request.Active {
		ids, more, err := d.stored(durable.Query{Of: listKind(method), Prefix: request.Prefix, After: request.After, To: request.To, Limit: limit})
		switch {
		case err != nil && d.tenure != nil && d.tenure.Ended():
			return answer{code: wire.CodeDropped} // the caller looks for the next home
		case err != nil:
			return d.notOpen(err)
		}
		if a, ok := s.leased(&r.turn); !ok { // the store may have taken long
			return a
		}
		return pageOf(ids, more, size)
	}
	s.Mu.Lock()
	if r.turn.entity.Lost() {
		s.Mu.Unlock()
		return answer{code: wire.CodeDropped} // the shard's next home has the entities
	}
	all := s.Core.IDs(request.Active)
	if method == wire.MethodDue {
		all = s.volatile.dues()
	}
	ids, more := listing.Best(all, &request, limit)
	s.Mu.Unlock()
	return pageOf(ids, more, size)
}

func pageOf(ids []string, more bool, size int) answer {
	buf := answerPool.Get().(*[]byte)
	ids, more = listing.Fit(ids, more, size)
	*buf = wire.AppendListPage((*buf)[:0], ids, more)
	return answer{payload: buf}
}

func listKind(method string) durable.ListKind {
	switch method {
	case wire.MethodFind:
		return durable.Keys
	case wire.MethodDue:
		return durable.Dues
	}
	return durable.IDs
}

// stored returns a page of a durable shard's ids or keys in the store, and whether more follow.
func (r *durableTurn) stored(q durable.Query) (ids []string, more bool, err error) {
	if r.tenure = r.turn.shard().Durable.Current(); r.tenure == nil {
		if err := r.open(); err != nil {
			return nil, false, err
		}
	}
	type page struct {
		ids  []string
		more bool
		err  error
	}
	got := make(chan page, 1)
	stop := r.tenure.List(q, func(ids []string, more bool, err error) { got <- page{ids, more, err} })
	defer stop()
	select {
	case p := <-got:
		return p.ids, p.more, p.err
	default:
	}
	r.turn.yieldLane()
	ctx, cancel := r.turn.shard().Durable.patience(&r.turn)
	defer cancel()
	select {
	case p := <-got:
		return p.ids, p.more, p.err
	case <-ctx.Done():
		return nil, false, fmt.Errorf("shard %v: read the ids: %w", r.turn.shard().ID, ctx.Err())
	}
}
