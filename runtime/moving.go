package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/transport"
)

// beginMove takes the coordinator's order to give the shard away.
func (s *hostedShard) beginMove(to transport.Address, epoch placement.Epoch) {
	s.do(func(uint32, time.Time) region.Effects { return s.core.BeginMove(to, epoch) })
	s.releaseAll()
	s.watchDrain(epoch)
}

// watchDrain gives a move up whose shard does not drain in time.
func (s *hostedShard) watchDrain(epoch placement.Epoch) {
	s.watch(region.Draining, epoch, "its turns and stop hooks outlasted HandoffTimeout")
}

// watch gives a move up if the shard is in that state of it still after HandoffTimeout.
func (s *hostedShard) watch(state region.State, epoch placement.Epoch, why string) {
	stays := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.core.State() == state && s.core.MoveEpoch() == epoch
	}
	if !stays() {
		return
	}
	pl := s.plane()
	time.AfterFunc(pl.cfg.HandoffTimeout, func() {
		if stays() && !pl.closed() {
			pl.ctl.moveAborted(s.id, epoch, fmt.Sprintf("%s (%v)", why, pl.cfg.HandoffTimeout))
		}
	})
}

// handOff runs when the last turn has ended: hooks, state, Init.
func (s *hostedShard) handOff() {
	if s.host.instance != nil {
		s.host.instance.handOff()
		return
	}
	pl := s.plane()
	s.mu.Lock()
	epoch, to := s.core.MoveEpoch(), s.core.Peer()
	entities, ok := s.core.Stop()
	s.mu.Unlock()
	if !ok {
		return // the move is off, or its hooks run already
	}
	rested := false
	defer func() {
		if !rested && !pl.closed() {
			pl.wg.Go(func() { s.giveUp(epoch, errEncodeExits) })
		}
	}()
	states, err := s.restAll(entities, codegen.Moving, s.mustGo())
	rested = true
	if err != nil {
		s.giveUp(epoch, err)
		return
	}
	parts := s.initParts(states, s.packs(), epoch)
	p := pl.path(transport.Peer{Address: to}, s.lane)
	s.do(func(now uint32, _ time.Time) region.Effects {
		fx, sent := s.core.Stopped(epoch, now)
		if !sent {
			return fx
		}
		if p == nil {
			pl.ctl.moveAborted(s.id, epoch, to.String()+" is gone")
			return fx
		}
		if err := p.appendAll(parts); err != nil {
			pl.ctl.moveAborted(s.id, epoch, "send the state to "+to.String()+": "+err.Error())
		}
		return fx
	})
	if p != nil {
		p.flush()
	}
	s.watch(region.Sent, epoch, to.Name+" did not say within HandoffTimeout that it has the shard's state")
	pl.ctl.progress(s.id)
}

// errEncodeExits: a method that encodes state ended its goroutine.
var errEncodeExits = fmt.Errorf("encode the state: %w: runtime.Goexit", ErrPanic)

// leaveTries is how often a leaving node tries to give a shard away whose state does not
// encode, before it leaves the state of such entities behind.
const leaveTries = 3

// mustGo reports whether the shard is to be given away without what does not encode.
func (s *hostedShard) mustGo() bool { return s.plane().leaving.Load() && s.unsent >= leaveTries-1 }

// giveUp ends a move whose stop hooks have not run, for a reason of this node's own. The
// shard is this node's still, and opens again when the coordinator says so.
func (s *hostedShard) giveUp(epoch placement.Epoch, why error) {
	if s.unsent++; s.unsent&(s.unsent-1) == 0 { // seldom, for it is tried again
		s.plane().log.Error("shard cannot move: the state of an entity does not encode", "err", why, "tries", s.unsent)
	}
	s.do(func(now uint32, _ time.Time) region.Effects {
		fx, _ := s.core.CancelMove(epoch)
		ended, _ := s.core.Stopped(epoch, now)
		return fx.With(ended)
	})
	s.plane().ctl.moveAborted(s.id, epoch, why.Error())
}

// restAll encodes the entities that the core has stopped for a move, runs their stop
// hooks, and returns the encoded states of all. It ends early when the move is given up,
// for then others may have turns. An entity whose state does not encode is an error, and
// then no hook has run; unless the shard must go, without that entity's state.
func (s *hostedShard) restAll(entities []*region.Entity, why codegen.Passivation, must bool) ([]region.Encoded, error) {
	states := make([][]byte, len(entities))
	for i, e := range entities {
		if !s.mayRest(e) {
			return nil, nil
		}
		var err error
		if states[i], err = s.encodeState(e); err == nil || s.host.settings.handoff.Drops {
			continue
		}
		err = fmt.Errorf("encode the state of %s/%s: %w (mend what its encoder refuses)", s.id.Kind, clip(e.ID), err)
		if !must {
			return nil, err
		}
		s.plane().ledger.add(stateLost)
		s.plane().log.Error("state lost: its node leaves and it does not encode", "kind", s.id.Kind, "entity", clip(e.ID), "err", err)
	}
	s.unsent = 0
	for i, e := range entities {
		if !s.mayRest(e) {
			return nil, nil
		}
		state, err := s.hookAndEncode(e, why, states[i])
		s.retire(e, why, state, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.States(), nil
}

func (s *hostedShard) mayRest(e *region.Entity) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Rest(e)
}

// initParts encodes the shard's state into envelopes that fit the broker. A
// state that does not fit into one is cut: the new home puts it together again.
func (s *hostedShard) initParts(entities []region.Encoded, ids luggage, epoch placement.Epoch) []*wire.Envelope {
	limit := max(s.plane().link().MaxPayload(), minPayload) - wire.MaxFrameHeader - wire.Overhead - 2*transport.MaxNameBytes
	var parts []*wire.Envelope
	var records []byte
	cut := func(last bool) {
		e := s.step(wire.TypeInit, epoch)
		e.Payload, e.Last = records, last
		parts, records = append(parts, e), nil
	}
	add := func(entity string, piece []byte, r wire.Remembered) {
		if len(records) > 0 && len(records)+wire.RecordBound(entity, piece) > limit {
			cut(false)
		}
		records = wire.AppendRecord(records, entity, piece, r)
	}
	if s.host.settings.handoff.Drops {
		entities = nil
	}
	for _, e := range entities {
		mark := wire.NotRemembered
		if _, ok := ids.ids[e.ID]; ok {
			mark = wire.WithState
			delete(ids.ids, e.ID)
		}
		for rest, first := e.State, true; first || len(rest) > 0; first = false {
			piece := rest[:min(len(rest), limit-wire.RecordBound(e.ID, nil))]
			add(e.ID, piece, mark)
			rest = rest[len(piece):]
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids.ids)) {
		add(id, nil, wire.WithoutState)
	}
	if ids.all {
		add("", nil, wire.WithoutState)
	}
	cut(true)
	return parts
}

// prepare takes a part of the state from the old home.
func (s *hostedShard) prepare(from *path, epoch placement.Epoch, e *wire.Envelope) {
	states, ids, err := unpack(e.Payload)
	s.mu.Lock()
	refused := err != nil || s.plane().exiting.Load()
	ready := false
	if !refused {
		ready, refused = s.core.Prepare(from.peer.Address, epoch, states, e.Last)
	}
	switch {
	case refused:
		r := s.step(wire.TypeReject, epoch)
		r.Text = []byte("it knows a newer placement, or leaves")
		if err != nil {
			r.Text = []byte(err.Error())
		}
		_ = from.append(r)
	case ready:
		_ = from.append(s.step(wire.TypeReady, epoch))
	}
	if !refused {
		s.comesLocked(epoch, ids)
	}
	s.mu.Unlock()
	from.flush()
	s.plane().ctl.progress(s.id)
}

func (s *hostedShard) ready(from transport.Address, epoch placement.Epoch) {
	s.do(func(uint32, time.Time) region.Effects { return s.core.Ready(from, epoch) })
	s.releaseAll()
	s.watchDrain(epoch) // only one that served on drains now
}

// offerLocked asks the new home to prepare a shard that goes on here meanwhile.
func (s *hostedShard) offerLocked(after *[]func()) {
	pl, to, epoch := s.plane(), s.core.Peer(), s.core.MoveEpoch()
	e := s.step(wire.TypeInit, epoch)
	e.Last = true
	p := pl.path(transport.Peer{Address: to}, s.lane)
	if p == nil || p.append(e) != nil {
		pl.ctl.moveAborted(s.id, epoch, to.String()+" is gone")
		return
	}
	*after = append(*after, func() { p.flush() })
}

func (s *hostedShard) openAt(from transport.Address, epoch placement.Epoch) {
	if s.host.instance != nil {
		s.host.instance.opened(from, epoch) // its manager has the last word
		return
	}
	s.do(func(now uint32, at time.Time) region.Effects {
		fx := s.core.OpenAt(from, epoch, now, at)
		if fx.Opened {
			s.plane().ledger.add(shardMovedIn)
		}
		return fx
	})
}

// cancelMove takes the word that a move is off. It reports whether it is off here.
func (s *hostedShard) cancelMove(epoch placement.Epoch) (off bool) {
	s.do(func(uint32, time.Time) region.Effects {
		var fx region.Effects
		fx, off = s.core.CancelMove(epoch)
		return fx
	})
	return off
}

// rest runs the stop hook of an entity and keeps its state encoded. The caller has its
// turn. An idle entity whose state cannot be encoded stays active; one that must go loses
// what it had since it was last encoded, with a line in the log.
func (s *hostedShard) rest(e *region.Entity, why codegen.Passivation) {
	state, err := s.encodeState(e)
	if err == nil {
		state, err = s.hookAndEncode(e, why, state)
	}
	s.settle(e, why, state, err)
}

// settle puts an entity to rest whose hook has run, with that encoded state; err is what
// failed. One that is idle stays active then, unless its hook goes on.
func (s *hostedShard) settle(e *region.Entity, why codegen.Passivation, state []byte, err error) {
	if err != nil && why == codegen.Idle && !errors.Is(err, errHookStuck) {
		s.passivationFailed(e, why, err)
		return
	}
	s.retire(e, why, state, err)
}

// hookAndEncode runs the stop hook of an entity that was encoded as state, and returns
// the state as the hook left it. If either fails, that is the state from before the hook.
func (s *hostedShard) hookAndEncode(e *region.Entity, why codegen.Passivation, state []byte) ([]byte, error) {
	if s.host.desc.Passivate == nil {
		return state, nil
	}
	if err := s.stopHook(e, why); err != nil {
		return state, err
	}
	after, err := s.encodeState(e)
	if err != nil {
		return state, err
	}
	return after, nil
}

func (s *hostedShard) passivationFailed(e *region.Entity, why codegen.Passivation, err error) {
	pl := s.plane()
	pl.seldom.error(pl.log, "passivation failed", s.id.Kind, why.String(),
		"kind", s.id.Kind, "entity", clip(e.ID), "why", why.String(), "err", err)
}

// retire puts an entity to rest whose hook has run, with that encoded state; err is what
// failed before.
func (s *hostedShard) retire(e *region.Entity, why codegen.Passivation, state []byte, err error) {
	if err != nil {
		s.passivationFailed(e, why, err)
	}
	s.host.lost(e)
	e.Value, e.State = nil, state
	if why == codegen.Idle {
		s.forgetRested(e)
	}
	s.plane().ledger.add(entityPassivated)
}

// encodeState encodes the state of an active entity, with what its program does not
// know of it. It returns nil for a type without state. The caller has the entity's turn.
func (s *hostedShard) encodeState(e *region.Entity) (state []byte, err error) {
	return s.appendState([]byte{}, e)
}

// appendState is encodeState into a buffer. It does not use the buffer for a type that
// has no encoder.
func (s *hostedShard) appendState(b []byte, e *region.Entity) (state []byte, err error) {
	h := &s.host.desc
	if h.AppendState == nil {
		return e.State, nil
	}
	defer func() {
		if r := recover(); r != nil {
			state, err = nil, panicError("encoding the state", r)
		}
	}()
	if state, err = h.AppendState(b, e.Value); err != nil {
		return nil, err
	}
	return codegen.AppendUnknown(state, e.State, h.StateFields), nil
}

// decodeState decodes an entity's state into its value. It returns what this program
// does not know of it, nil mostly: that stays with the entity while it is active, and
// is written back.
func (s *hostedShard) decodeState(value any, state []byte) (unknown []byte, err error) {
	h := &s.host.desc
	if h.DecodeState == nil {
		if len(state) == 0 {
			return nil, nil
		}
		return state, nil // an older program's type has no state at all
	}
	skipped, err := h.DecodeState(value, state)
	if err != nil || !skipped {
		return nil, err
	}
	return codegen.UnknownFields(state, h.StateFields), nil
}

// wake brings an entity to life at the start of a turn.
func (s *hostedShard) wake(ctx context.Context, e *region.Entity) (err error) {
	h := s.host
	defer func() {
		if r := recover(); r != nil {
			e.Value, err = nil, panicError("OnActivate or the factory", r)
		}
	}()
	why := e.Why
	if e.State == nil {
		why = codegen.Fresh
	}
	value := h.desc.New()
	if h.desc.SetID != nil {
		if err := h.desc.SetID(value, e.ID); err != nil {
			return err
		}
	}
	var unknown []byte
	if e.State != nil {
		if unknown, err = s.decodeState(value, e.State); err != nil {
			return err
		}
	}
	if h.desc.Activate != nil {
		if err := h.desc.Activate(ctx, value, why); err != nil {
			return err
		}
	}
	e.Value, e.State, e.Why = value, unknown, codegen.Resumed
	h.woke()
	return nil
}
