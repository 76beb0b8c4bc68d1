package wire

import (
	"encoding/binary"

	"github.com/shardgen/shardgen/transport"
)

// An OpenWord is what goes with Open: what the old home of a shard knows of ways
// that lead there.
type OpenWord struct {
	Silent  []transport.Address // of whom nothing comes any more
	Refused []Way               // what still comes on them is out of order
}

// A Way is that of a sender's calls by way of an old home.
type Way struct{ Sender, Via transport.Address }

// AppendOpenWord appends the payload of Open: a record for each process, with its
// incarnation as the state, and one for each way, with the sender's incarnation,
// that of the old home, and its name.
func AppendOpenWord(b []byte, w OpenWord) []byte {
	for _, a := range w.Silent {
		b = AppendRecord(b, a.Name, binary.BigEndian.AppendUint64(nil, a.Incarnation), NotRemembered)
	}
	for _, r := range w.Refused {
		state := binary.BigEndian.AppendUint64(nil, r.Sender.Incarnation)
		state = binary.BigEndian.AppendUint64(state, r.Via.Incarnation)
		b = AppendRecord(b, r.Sender.Name, append(state, r.Via.Name...), NotRemembered)
	}
	return b
}

// ParseOpenWord is the reverse. Records of another shape are skipped.
func ParseOpenWord(b []byte) (w OpenWord, err error) {
	err = ParseRecords(b, func(r Record) {
		switch n := len(r.State); {
		case n == 8:
			w.Silent = append(w.Silent, transport.Address{Name: r.Entity, Incarnation: binary.BigEndian.Uint64(r.State)})
		case n > 16:
			w.Refused = append(w.Refused, Way{
				Sender: transport.Address{Name: r.Entity, Incarnation: binary.BigEndian.Uint64(r.State)},
				Via:    transport.Address{Name: string(r.State[16:]), Incarnation: binary.BigEndian.Uint64(r.State[8:])},
			})
		}
	})
	return w, err
}
