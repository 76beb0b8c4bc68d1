package sim

import (
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// holding is the lease that decides a cluster's splits, with its holder. The store is at server 0.
type holding struct {
	holder transport.Address
	token  uint64
	until  time.Duration
}

// storeTime is the time that the store takes for a request, without the transport.
const storeTime = 5 * time.Millisecond

type leaseStore struct{ *World }

// takeLease sends n's request to the store. n gets the lease if it is free or n's own, or if r.Over
// is the present holding's token. If n gets no answer, n may nevertheless have got the lease.
func (w leaseStore) takeLease(n *Node, r membership.LeaseRequest) {
	away := 2*w.config.Latency + w.config.Between
	answer := func(after time.Duration, a membership.LeaseAnswer) {
		a.Seq = r.Seq
		w.After(after, func() { n.step(w.World, a) })
	}
	reached := n.registered && n.lossOut < 1 && network(w).passes(n.server, w.servers[0])
	back := n.lossIn < 1 && network(w).passes(w.servers[0], n.server)
	trouble := w.config.StoreTrouble > 0 && w.random.Float64() < w.config.StoreTrouble
	if !reached || trouble && w.random.IntN(2) == 0 {
		answer(r.Within, membership.LeaseAnswer{Reason: "the store does not answer"})
		return
	}
	w.After(away+storeTime, func() {
		token := w.take(n, r)
		switch {
		case !back || trouble:
			answer(r.Within, membership.LeaseAnswer{Reason: "the store's answer was lost"})
		case token == 0:
			answer(away, membership.LeaseAnswer{Held: true, Reason: "held by " + w.leases[r.Founder].holder.String()})
		default:
			answer(away, membership.LeaseAnswer{Token: token})
		}
	})
}

func (w leaseStore) take(n *Node, r membership.LeaseRequest) (token uint64) {
	h := w.leases[r.Founder]
	held := w.now < h.until && (r.Over == 0 || r.Over != h.token)
	if held && h.holder != n.Address {
		return 0
	}
	if !held {
		h.token++
	}
	h.holder, h.until = n.Address, w.now+r.TTL
	w.leases[r.Founder] = h
	w.trace.line(w.now, "%v takes the lease, token %d", n.Address, int(h.token))
	return h.token
}

type foundingStore struct{ *World }

// ask sends n's request to the store and returns the answer, which may be lost.
func (w foundingStore) ask(n *Node, r membership.FoundingRequest) {
	away := 2*w.config.Latency + w.config.Between
	answer := func(after time.Duration, a membership.FoundingAnswer) {
		a.Number = r.Number
		w.After(after, func() { n.step(w.World, a) })
	}
	unknown := membership.FoundingAnswer{Reason: "the store does not answer"}
	reached := n.registered && n.lossOut < 1 && network(w).passes(n.server, w.servers[0])
	back := n.lossIn < 1 && network(w).passes(w.servers[0], n.server)
	trouble := w.config.StoreTrouble > 0 && w.random.Float64() < w.config.StoreTrouble
	if !reached || trouble && w.random.IntN(2) == 0 {
		answer(r.Within, unknown)
		return
	}
	w.After(away+storeTime, func() {
		a := membership.FoundingAnswer{Founding: w.founding, Revision: w.revision}
		switch {
		case !r.Write:
		case r.Over != w.revision:
			a = membership.FoundingAnswer{Conflict: true}
		default:
			w.revision++
			w.founding = r.Founding
			a = membership.FoundingAnswer{Revision: w.revision}
		}
		if !back || trouble {
			answer(r.Within, unknown)
			return
		}
		answer(away, a)
	})
}
