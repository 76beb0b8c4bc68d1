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
	s.mu.Lock()
	waits := s.core.State() == region.Draining && s.core.MoveEpoch() == epoch
	s.mu.Unlock()
	if !waits {
		return
	}
	pl := s.plane()
	time.AfterFunc(pl.cfg.HandoffTimeout, func() {
		s.mu.Lock()
		late := s.core.State() == region.Draining && s.core.MoveEpoch() == epoch
		s.mu.Unlock()
		if late && !pl.closed() {
			pl.ctl.moveAborted(s.id, epoch, "a turn outlasted HandoffTimeout ("+pl.cfg.HandoffTimeout.String()+")")
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
	parts := s.initParts(s.restAll(entities, codegen.Moving), s.packs(), epoch)
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
		for _, e := range parts {
			if err := p.append(e); err != nil {
				pl.ctl.moveAborted(s.id, epoch, "send the state to "+to.String()+": "+err.Error())
				break
			}
		}
		return fx
	})
	if p != nil {
		p.flush()
	}
	pl.ctl.progress(s.id)
}

// restAll runs the stop hooks of entities that the core has stopped for a move, and
// returns the encoded states of all. It ends early when the move is given up, for
// then others may have turns.
func (s *hostedShard) restAll(entities []*region.Entity, why codegen.Passivation) []region.Encoded {
	may := func(e *region.Entity) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.core.Rest(e)
	}
	for _, e := range entities {
		if !may(e) {
			return nil
		}
		s.rest(e, why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.States()
}

// initParts encodes the shard's state into envelopes that fit the broker. A
// state that does not fit into one is cut: the new home puts it together again.
func (s *hostedShard) initParts(entities []region.Encoded, ids luggage, epoch placement.Epoch) []*wire.Envelope {
	limit := s.plane().link().MaxPayload() - wire.MaxFrameHeader - wire.Overhead - 2*transport.MaxNameBytes
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

// rest runs the stop hook of an entity and keeps its state encoded. The caller
// has its turn. An idle entity whose
// state cannot be encoded stays active; one that must go loses what it had since
// it was last encoded, with a line in the log.
func (s *hostedShard) rest(e *region.Entity, why codegen.Passivation) {
	state, err := s.encodeState(e)
	if err == nil {
		err = s.stopHook(e, why)
	}
	if err == nil { // the hook may have changed it
		var after []byte
		if after, err = s.encodeState(e); err == nil {
			state = after
		}
	}
	if err != nil {
		s.plane().log.Error("passivation failed", "kind", s.id.Kind, "entity", clip(e.ID), "why", why.String(), "err", err)
		if why == codegen.Idle && !errors.Is(err, errHookStuck) {
			return
		}
	}
	s.host.lost(e)
	e.Value, e.State = nil, state
	if why == codegen.Idle {
		s.forgetRested(e)
	}
	s.plane().ledger.add(entityPassivated)
}

// encodeState encodes the state of an active entity, with what its program does not
// know of it. It returns nil for a type without state.
func (s *hostedShard) encodeState(e *region.Entity) (state []byte, err error) {
	h := &s.host.desc
	if h.AppendState == nil {
		return e.State, nil
	}
	defer func() {
		if r := recover(); r != nil {
			state, err = nil, panicError("encoding the state", r)
		}
	}()
	if state, err = h.AppendState([]byte{}, e.Value); err != nil {
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

// errHookStuck: the hook goes on with the entity, which nobody else may touch.
var errHookStuck = errors.New("OnPassivate does not return")

// stopHook runs OnPassivate, on a goroutine of its own: it may never return, or
// end its goroutine. Its error is only logged: the entity goes anyway.
func (s *hostedShard) stopHook(e *region.Entity, why codegen.Passivation) error {
	hook, pl, value := s.host.desc.Passivate, s.plane(), e.Value
	if hook == nil {
		return nil
	}
	limit := s.host.settings.stopTimeout
	ctx, cancel := context.WithTimeout(pl.ctx, limit)
	defer cancel()
	ended := make(chan error, 1)
	pl.wg.Go(func() {
		err := fmt.Errorf("%w in OnPassivate: runtime.Goexit", ErrPanic)
		defer func() {
			if r := recover(); r != nil {
				err = panicError("OnPassivate", r)
			}
			ended <- err
		}()
		if failed := hook(ctx, value, why); failed != nil {
			pl.log.Warn("OnPassivate failed", "kind", s.id.Kind, "entity", clip(e.ID), "err", failed)
		}
		err = nil
	})
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-patience.C:
		pl.ledger.add(hookAbandoned)
		return fmt.Errorf("%w within %v (heed its context, or raise StopTimeout)", errHookStuck, limit)
	}
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
