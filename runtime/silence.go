package shard

import (
	"slices"
	"sync"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/transport"
)

// maxSilences bounds the processes that are remembered to be silent. Those who
// ask have just learnt that a shard left such a one, so the latest are enough.
const maxSilences = 64

// silences are the latest processes from which nothing comes any more: they said
// goodbye on a lane, or were removed. An old home tells them with Open, so that a
// new home which came after they had left does not wait for what cannot come. It
// is safe for concurrent use.
type silences struct {
	mu   sync.Mutex
	list []silence // latest last
}

type silence struct {
	address transport.Address
	lane    int // -1: all
}

func (s *silences) add(a transport.Address, lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, silence{a, lane})
	s.list = s.list[max(0, len(s.list)-maxSilences):]
}

// on are those that are silent on the lane.
func (s *silences) on(lane int) (all []transport.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		if o.lane < 0 || o.lane == lane {
			all = append(all, o.address)
		}
	}
	return all
}

// open is the word to the shard's new home that it may run: with it goes who is
// silent here, and was at the homes before, and whose older calls come too late.
func (s *hostedShard) openLocked() *wire.Envelope {
	e := s.step(wire.TypeOpen, s.core.Epoch())
	all := append(slices.Clone(s.silent), s.plane().silences.on(s.lane)...)
	w := wire.OpenWord{Silent: all[max(0, len(all)-maxSilences):]}
	for _, r := range s.core.RefusedWays() {
		w.Refused = append(w.Refused, wire.Way(r))
	}
	e.Payload = wire.AppendOpenWord(e.Payload, w)
	return e
}

// hearOpen notes what the old home knows, and opens the gates that wait for who is
// silent. A word that does not decode is none: then gates time out.
func (s *hostedShard) hearOpen(payload []byte) {
	w, err := wire.ParseOpenWord(payload)
	if err != nil {
		return
	}
	var refused []region.Way
	for _, r := range w.Refused {
		refused = append(refused, region.Way(r))
	}
	told := w.Silent[:min(len(w.Silent), maxSilences)]
	s.mu.Lock()
	s.core.RefuseWays(refused)
	if len(told) > 0 {
		s.silent = told
	}
	gated := s.core.Gated()
	s.mu.Unlock()
	if gated && len(told) > 0 {
		s.openGates(func(a transport.Address) bool { return slices.Contains(told, a) })
	}
}
