package shard

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/placement"
)

// repairs shows and replaces states of entities of a node.
type repairs struct{ node *Node }

// states serves an operator's requests about the states of entities of this node. It runs
// outside the control loop, because it may wait for their decoders.
func (p repairs) states(r *operator.Request) (found []operator.Entity, err error) {
	defer func() {
		if r := recover(); r != nil {
			found, err = nil, panicError("reading the state", r)
		}
	}()
	h, err := p.hostOf(r.Entity.Kind)
	if err != nil {
		return nil, err
	}
	if r.Entity.ID != "" {
		one, err := p.one(h, r)
		return []operator.Entity{one}, err
	}
	for _, id := range h.unreadable.all() {
		one, err := p.one(h, &operator.Request{Command: operator.State, Entity: operator.Entity{Kind: r.Entity.Kind, ID: id}})
		if err == nil && one.Why != "" {
			one.State, one.JSON = nil, "" // all states would be too large for one answer
			found = append(found, one)
		} else if err == nil {
			h.unreadable.remove(id) // it has moved, or was repaired
		}
	}
	return found, nil
}

func (p repairs) hostOf(kind string) (*host, error) {
	k := (*p.node.driver.kinds.Load())[kind]
	switch {
	case k == nil || k.host == nil:
		return nil, fmt.Errorf("this node does not host %s", clip(kind))
	case k.host.desc.Singleton:
		return nil, fmt.Errorf("%s is a singleton, which starts without state if its state cannot be read", clip(kind))
	case k.host.desc.DecodeState == nil:
		return nil, fmt.Errorf("%s has no state", clip(kind))
	}
	return k.host, nil
}

// one shows or replaces the state of one entity.
func (p repairs) one(h *host, r *operator.Request) (operator.Entity, error) {
	at := operator.Entity{Kind: r.Entity.Kind, ID: r.Entity.ID}
	_, number, err := invoker{h.kind}.Locate(at.ID)
	if err != nil {
		return at, err
	}
	s := p.node.hostedShard(placement.ShardID{Kind: at.Kind, Shard: number})
	if s == nil {
		return at, errors.New("no such shard")
	}
	s.Mu.Lock()
	open := s.Core.State() == region.Open
	var e *region.Entity
	if open {
		e = s.Core.Take(at.ID, p.node.driver.clock.Load())
	}
	s.Mu.Unlock()
	switch {
	case e != nil:
	case open:
		return at, errors.New("a call of it is under way (try again)")
	default:
		home, ok := p.node.driver.table.Load().Kind(at.Kind).Lookup(number)
		if !ok || home.Owner.IsZero() || home.Owner == p.node.driver.self.Address {
			return at, errors.New("its shard is moving (try again)")
		}
		at.Node = home.Owner
		return at, nil
	}
	defer s.endTurn(e)
	at.Node, at.Active = p.node.driver.self.Address, e.Value != nil
	if r.Command == operator.SetState {
		return at, setState(s, e, r.Entity.State)
	}
	return at, showState(s, e, &at)
}

// showState returns the state of an entity whose turn the caller has.
func showState(s *hostedShard, e *region.Entity, to *operator.Entity) (err error) {
	if e.Value != nil {
		to.State, err = s.host.encodeState(e)
		to.JSON = stateJSON(e.Value)
		return err
	}
	if to.State = slices.Clone(e.State); e.State != nil {
		value := s.host.desc.New()
		if _, err := s.host.decodeState(value, e.State); err != nil {
			to.Why = err.Error()
			return nil
		}
		to.JSON = stateJSON(value)
	}
	return nil
}

// maxStateJSON bounds the JSON of a state, in bytes.
const maxStateJSON = 64 << 10

// secretJSON stands for the value of a field that is tagged secret.
const secretJSON = `"(secret)"`

// stateJSON returns the fields of an entity that are tagged state, as encoding/json has them, in the
// order of the struct and without secrets; "" if they have no such form, or a larger one than
// maxStateJSON.
func stateJSON(entity any) (text string) {
	defer func() {
		if recover() != nil { // a MarshalJSON of the user's panics
			text = ""
		}
	}()
	v := reflect.ValueOf(entity)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return ""
	}
	v = v.Elem()
	b := []byte{'{'}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag := strings.Split(f.Tag.Get("shard"), ",")
		if tag[0] != "state" || !f.IsExported() {
			continue
		}
		value := []byte(secretJSON)
		if !slices.Contains(tag, "secret") {
			var err error
			if value, err = json.Marshal(v.Field(i).Interface()); err != nil {
				return ""
			}
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, f.Name), ':')
		if b = append(b, value...); len(b) > maxStateJSON {
			return ""
		}
	}
	return string(append(b, '}'))
}

// setState replaces the state of an entity whose turn the caller has.
func setState(s *hostedShard, e *region.Entity, state []byte) error {
	if e.Value != nil {
		return errors.New("it is active, so its state can be read (call it to change it)")
	}
	if !s.mayRun() {
		return errors.New("its shard may have moved to another node (try again)")
	}
	if state != nil {
		if _, err := s.host.decodeState(s.host.desc.New(), state); err != nil {
			return fmt.Errorf("the new state cannot be read either: %w", err)
		}
	}
	before := len(e.State)
	e.State = state
	s.host.unreadable.remove(e.ID)
	s.driver().log.Warn("state set by an operator", "kind", s.ID.Kind, "entity", clip(e.ID), "bytes", len(state), "before", before, "dropped", state == nil)
	return nil
}
