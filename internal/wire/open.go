package wire

import (
	"encoding/binary"

	"github.com/shardgen/shardgen/transport"
)

// An OpenPayload is sent with the message Open, which lets a shard's new home run the shard. It
// names departed processes, which send no further calls, and detours on which further calls are
// refused.
type OpenPayload struct {
	Departed []transport.Address // processes from which nothing more arrives
	Refused  []Detour            // calls that still arrive by these routes are refused, because they are out of order
}

// A Detour is the route of a sender's calls through an old home, Via.
type Detour struct{ Sender, Via transport.Address }

// AppendOpenPayload appends the payload of Open as records. A departed process's record has its
// name, and its incarnation as the state. A refused detour's record has the sender's name. Its
// state is the incarnations of the sender and of the old home, then the old home's name.
func AppendOpenPayload(b []byte, w OpenPayload) []byte {
	for _, a := range w.Departed {
		b = AppendRecord(b, a.Name, binary.BigEndian.AppendUint64(nil, a.Incarnation), NotRemembered)
	}
	for _, r := range w.Refused {
		state := binary.BigEndian.AppendUint64(nil, r.Sender.Incarnation)
		state = binary.BigEndian.AppendUint64(state, r.Via.Incarnation)
		b = AppendRecord(b, r.Sender.Name, append(state, r.Via.Name...), NotRemembered)
	}
	return b
}

// ParseOpenPayload decodes the output of AppendOpenPayload. It skips other records.
func ParseOpenPayload(b []byte) (w OpenPayload, err error) {
	err = ParseRecords(b, func(r Record) {
		switch n := len(r.State); {
		case n == 8:
			w.Departed = append(w.Departed, transport.Address{Name: r.Entity, Incarnation: binary.BigEndian.Uint64(r.State)})
		case n > 16:
			w.Refused = append(w.Refused, Detour{
				Sender: transport.Address{Name: r.Entity, Incarnation: binary.BigEndian.Uint64(r.State)},
				Via:    transport.Address{Name: string(r.State[16:]), Incarnation: binary.BigEndian.Uint64(r.State[8:])},
			})
		}
	})
	return w, err
}
