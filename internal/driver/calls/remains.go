package calls

import (
	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

type remains struct {
	env  Env
	left *Left
}

var _ routing.Sender = remains{}

// RouteOf returns the route of an envelope.
func (r remains) RouteOf(e *wire.Envelope) *routing.Route { return r.env.Route(e.Kind, e.Shard) }

// Waits reports whether a caller still waits for the answer to call id.
func (r remains) Waits(id uint64) bool { return r.env.Calls().Waits(id) }

// Lost handles a call or tell that may have run. A tell is counted; a waiting caller's wait ends with
// the code Lost.
func (r remains) Lost(e *wire.Envelope) {
	r.env.Lost(e, LostUnacknowledged)
	lost := Result{Code: Lost, Lost: r.left.Session.Peer().Address}
	if r.left.Session.Dropped() {
		lost.Text = WhyDropped
	}
	r.env.Calls().Complete(e.ID, lost)
}

// Again counts a call that is sent again.
func (r remains) Again(e *wire.Envelope) {
	r.env.Calls().Sent(e.ID, nil, 0)
	r.env.Count(Retried)
}

// returned is what each shard gets back of what it had forwarded on a session that is now closed:
// flushes, and calls that certainly did not run.
type returned map[Shard]*remainsOf

type remainsOf struct {
	died bool
	back []region.Returned
}

func (r returned) depart(s Shard, departed func(transport.Address) bool) {
	if b := r[s]; b != nil {
		s.Depart(departed, b.died, b.back)
		return
	}
	s.Depart(departed, false, nil)
}

// takeBack collects, in the map back, the flushes and calls that shards forwarded on a session that
// is now closed. It leaves out calls that may have run: their senders get no answer, and wait until
// the calls' deadlines.
func (p *Plane) takeBack(left *Left, back returned) {
	p.gaveBack.Store(true)
	for i := range left.Unacknowledged {
		e, certain := &left.Unacknowledged[i].Envelope, left.Unacknowledged[i].NotExecuted
		isCall := e.Type == wire.TypeCall || e.Type == wire.TypeTell
		s, ok := p.env.Shard(e.Kind, e.Shard)
		if !ok || e.Type != wire.TypeFlushed && !(isCall && e.Relayed()) {
			continue
		}
		var r region.Returned
		switch {
		case !isCall:
			r.Flush = shardhost.FlushOf(e)
		case certain:
			p.env.Count(Retried)
			r.Call = &p.env.Returned(e, left.Lane).Call
		default:
			p.env.Lost(e, LostForwarded)
			continue
		}
		if back[s] == nil {
			back[s] = &remainsOf{died: !left.Session.SaidGoodbye()}
		}
		back[s].back = append(back[s].back, r)
	}
}

// Strand takes back the envelopes that a route holds for a shard that ends. An ask ends with
// wire.CodeMoved, so that its caller can call another shard. The function tell gets the tells, in
// order, and may send them elsewhere.
func (t *Table) Strand(r *routing.Route, tell func(*wire.Envelope)) {
	var all []wire.Envelope
	r.Drop(func(o stream.Outgoing) bool {
		all = append(all, o.Envelope)
		return true
	})
	for i := range all {
		if e := &all[i]; e.ID == 0 {
			tell(e)
		} else {
			t.Complete(e.ID, Result{Code: wire.CodeMoved})
		}
	}
}
