package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
)

// returned takes back what this node had passed on to one who is gone, after the
// shard has forgotten that one. Certain tells that it was not handled there; of
// other calls nobody knows, and their senders wait until their deadlines.
func (pl *plane) returned(e *wire.Envelope, lane int, certain bool) {
	k := (*pl.kinds.Load())[string(e.Kind)]
	if k == nil || k.host == nil {
		return
	}
	s := k.host.shard(e.Shard)
	switch {
	case s == nil:
	case e.Type == wire.TypeFlushed:
		s.Flushed(region.Flush{
			Sender: e.Node, Via: e.Via, Epoch: placement.Epoch(e.Epoch), Hop: placement.Epoch(e.Hop),
		})
	case certain:
		pl.ledger.add(callRetried)
		c := pl.newInCall(pl.self, e, lane, time.Now())
		s.Return(&c.Call)
	case e.Type == wire.TypeTell:
		pl.ledger.add(tellLost)
	}
}
