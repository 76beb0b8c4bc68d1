package shardhost

import (
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Refusal is why a call from another process is not taken.
type Refusal struct {
	Code  wire.Code
	Epoch placement.Epoch   // with CodeMoved: the placement that this process knows
	Home  transport.Address // with CodeMoved
	Text  string
}

// Answer is the answer to the call that came as an envelope with that sequence number.
// Its sender still has it, unless it was forwarded: then direct is false, and the answer
// goes to e.Node. ok is false for a forwarded tell, which is lost.
func (r Refusal) Answer(e *wire.Envelope, seq uint64) (answer *wire.Envelope, direct, ok bool) {
	answer = &wire.Envelope{
		Type: wire.TypeRefusal, ID: e.ID, Kind: e.Kind, Shard: e.Shard, Seq: seq,
		Code: r.Code, Epoch: uint64(r.Epoch), Node: transport.Peer{Address: r.Home}, Text: []byte(r.Text),
	}
	if !e.Relayed() {
		return answer, true, true
	}
	answer.Type, answer.Seq = wire.TypeAnswer, 0
	return answer, false, e.Type != wire.TypeTell
}
