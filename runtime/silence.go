package shard

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/shardgen/shardgen/internal/wire"
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
// silent here, and was at the homes before.
func (s *hostedShard) openLocked() *wire.Envelope {
	e := s.step(wire.TypeOpen, s.core.Epoch())
	all := append(slices.Clone(s.silent), s.plane().silences.on(s.lane)...)
	for _, a := range all[max(0, len(all)-maxSilences):] {
		e.Payload = wire.AppendRecord(e.Payload, a.Name, binary.BigEndian.AppendUint64(nil, a.Incarnation), wire.NotRemembered)
	}
	return e
}

// hearOpen notes whom the old home knows to be silent, and opens the gates that
// wait for such. A list that does not decode is no list: then gates time out.
func (s *hostedShard) hearOpen(payload []byte) {
	var told []transport.Address
	err := wire.ParseRecords(payload, func(r wire.Record) {
		if len(r.State) == 8 {
			told = append(told, transport.Address{Name: r.Entity, Incarnation: binary.BigEndian.Uint64(r.State)})
		}
	})
	if err != nil || len(told) == 0 {
		return
	}
	told = told[:min(len(told), maxSilences)]
	s.mu.Lock()
	s.silent = told
	gated := s.core.Gated()
	s.mu.Unlock()
	if gated {
		s.openGates(func(a transport.Address) bool { return slices.Contains(told, a) })
	}
}
