package remember

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// format is the encoding's version. Adding fields does not change it.
const format = 1

// MaxIDBytes is the maximum length of an entity's id, in bytes.
const MaxIDBytes = 1024

// Encode encodes a message as defined in internal/wire/remember.proto.
func Encode(m Message) ([]byte, error) {
	w := &wire.RememberMessage{Format: format}
	switch m := m.(type) {
	case Keep:
		w.Body = &wire.RememberMessage_Keep{Keep: setsToWire(m.Seq, m.Parts)}
	case Kept:
		w.Body = &wire.RememberMessage_Kept{Kept: &wire.RememberKept{Seq: m.Seq}}
	case Recall:
		r := &wire.RememberRecall{Seq: m.Seq}
		for _, want := range m.Wants {
			r.Wants = append(r.Wants, &wire.RememberWant{Kind: want.Kind, Shard: want.Shard, After: []byte(want.After)})
		}
		w.Body = &wire.RememberMessage_Recall{Recall: r}
	case Recalled:
		w.Body = &wire.RememberMessage_Recalled{Recalled: setsToWire(m.Seq, m.Parts)}
	default:
		return nil, fmt.Errorf("encode message about remembered entities: unknown type %T", m)
	}
	b, err := proto.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode message about remembered entities: %T: %w", m, err)
	}
	return b, nil
}

func setsToWire(seq uint64, parts []Part) *wire.RememberSets {
	w := &wire.RememberSets{Seq: seq}
	for _, p := range parts {
		s := &wire.RememberSet{
			Kind: p.Kind, Shard: p.Shard, Epoch: uint64(p.Epoch), Seq: p.Seq,
			Reset_: p.Reset, Seal: p.Seal, Drop: p.Drop, More: p.More,
		}
		gone := false
		for _, c := range p.Changes {
			s.Ids = append(s.Ids, []byte(c.ID))
			s.Gone = append(s.Gone, c.Gone)
			gone = gone || c.Gone
		}
		if !gone {
			s.Gone = nil
		}
		w.Sets = append(w.Sets, s)
	}
	return w
}

// Decode decodes the output of Encode. For other bytes, and for messages with impossible values, it
// returns an error and never panics.
func Decode(b []byte) (Message, error) {
	var w wire.RememberMessage
	if err := proto.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("decode message about remembered entities: %w", err)
	}
	if w.GetFormat() != format {
		return nil, fmt.Errorf("decode message about remembered entities: format %d (this version reads %d)", w.GetFormat(), format)
	}
	m, err := fromWire(&w)
	if err != nil {
		return nil, bounded.Error(fmt.Errorf("decode message about remembered entities: %w", err))
	}
	return m, nil
}

func fromWire(w *wire.RememberMessage) (Message, error) {
	switch b := w.GetBody().(type) {
	case *wire.RememberMessage_Keep:
		parts, err := partsFromWire(b.Keep)
		return Keep{b.Keep.GetSeq(), parts}, err
	case *wire.RememberMessage_Kept:
		return Kept{b.Kept.GetSeq()}, nil
	case *wire.RememberMessage_Recall:
		r := Recall{Seq: b.Recall.GetSeq()}
		for _, want := range b.Recall.GetWants() {
			id := placement.ShardID{Kind: want.GetKind(), Shard: want.GetShard()}
			if err := checkShard(id); err != nil {
				return nil, err
			}
			r.Wants = append(r.Wants, Want{id, string(want.GetAfter())})
		}
		return r, nil
	case *wire.RememberMessage_Recalled:
		parts, err := partsFromWire(b.Recalled)
		return Recalled{b.Recalled.GetSeq(), parts}, err
	}
	return nil, errors.New("the message has no body")
}

func partsFromWire(w *wire.RememberSets) ([]Part, error) {
	var parts []Part
	for _, s := range w.GetSets() {
		p := Part{
			ShardID: placement.ShardID{Kind: s.GetKind(), Shard: s.GetShard()},
			Epoch:   placement.Epoch(s.GetEpoch()), Seq: s.GetSeq(),
			Reset: s.GetReset_(), Seal: s.GetSeal(), Drop: s.GetDrop(), More: s.GetMore(),
		}
		if err := checkShard(p.ShardID); err != nil {
			return nil, err
		}
		if n := len(s.GetGone()); n != 0 && n != len(s.GetIds()) {
			return nil, fmt.Errorf("shard %v has %d ids, but %d marks of removal: want one for each id, or none", p.ShardID, len(s.GetIds()), n)
		}
		for i, id := range s.GetIds() {
			if len(id) == 0 || len(id) > MaxIDBytes {
				return nil, fmt.Errorf("shard %v has an id of %d bytes: want 1 to %d", p.ShardID, len(id), MaxIDBytes)
			}
			p.Changes = append(p.Changes, Change{string(id), len(s.GetGone()) > 0 && s.GetGone()[i]})
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func checkShard(id placement.ShardID) error {
	if id.Shard == 0 || id.Shard >= 2*placement.MaxShards {
		return fmt.Errorf("shard %d of %.20q: want 1 to %d", id.Shard, id.Kind, 2*placement.MaxShards-1)
	}
	return transport.CheckName("type", id.Kind)
}

// A Message is one of the messages between members about remembered ids: [Keep], [Kept], [Recall]
// or [Recalled].
type Message interface{ message() }

// Keep carries changes of ids from a shard's home to a replica. Seq is the number of the message,
// counted from 1 for each pair of sender and receiver.
type Keep struct {
	Seq   uint64
	Parts []Part
}

// Kept acknowledges the Keep with the same Seq.
type Kept struct{ Seq uint64 }

// Recall asks a member for the ids of shards whose home was lost.
type Recall struct {
	Seq   uint64
	Wants []Want
}

// Recalled answers the Recall with the same Seq, for all of its wants or only for the first ones.
type Recalled struct {
	Seq   uint64
	Parts []Part
}

func (Keep) message()     {}
func (Kept) message()     {}
func (Recall) message()   {}
func (Recalled) message() {}

// A Want asks for those ids of a shard that sort after the id After.
type Want struct {
	placement.ShardID
	After string
}

// A Part has changes of one shard's ids, in order. In a Recalled it has some of the shard's ids.
type Part struct {
	placement.ShardID
	// Epoch is the epoch of the home that has or had the shard. In a Recalled it is 0 if the member
	// keeps no ids of the shard.
	Epoch placement.Epoch
	// Seq counts the home's changes of the shard; 0 while the set is not whole.
	Seq     uint64
	Reset   bool // the receiver's set starts empty with this part
	Seal    bool // with this part the set is whole
	Drop    bool // ids kept up to Epoch are not needed any more
	More    bool // in a Recalled: more ids follow
	Changes []Change
}

// A Change is an id that was added or removed.
type Change struct {
	ID   string
	Gone bool
}

// Upper bounds for the encoded size of a part without its ids, and of an id without its own
// bytes.
const (
	partOverhead = 96
	idOverhead   = 8
)
