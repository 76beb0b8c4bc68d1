package control

import (
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/transport"
)

// Bounds of the memory and the work that processes outside the cluster may cost a member. A
// client repeats a hello that was not answered.
const (
	// maxClients bounds the clients that a member serves. Further ones get no answer until
	// another client says goodbye, or has not said hello for gatewayForget.
	maxClients = 4096
	// newClients bounds the clients that are met in each limitEvery.
	newClients = 512
	// maxHellos bounds the hellos of one client that are answered in each limitEvery.
	maxHellos = 64
	// limitEvery is the time in which newClients and maxHellos count.
	limitEvery = time.Second
	// maxAsked bounds the types that clients wait for. Further ones are not asked for until
	// others have homes.
	maxAsked = 1024
)

// A quota counts events since a moment. The zero value is empty.
type quota struct {
	since time.Time
	n     int
}

// take counts one more, and reports whether at most limit were counted in this limitEvery.
func (q *quota) take(now time.Time, limit int) bool {
	if now.Sub(q.since) >= limitEvery {
		*q = quota{since: now}
	}
	if q.n >= limit {
		return false
	}
	q.n++
	return true
}

// admit returns the client that says hello, which may be a new one, or nil if its hello is
// above the bounds.
func (g *gateway) admit(from transport.Peer, now time.Time) *servedClient {
	client := g.clients[from.Address]
	if client == nil {
		if len(g.clients) >= maxClients || !g.met.take(now, newClients) {
			return nil
		}
		client = &servedClient{peer: from}
		g.clients[from.Address] = client
	}
	if !client.hellos.take(now, maxHellos) {
		return nil
	}
	return client
}

// ask notes that a client waits for a home of the type, and asks the coordinator for one.
func (g *gateway) ask(kind string, now time.Time) {
	if _, known := g.asked[kind]; !known && (len(g.asked) >= maxAsked || len(kind) > bounded.Most) {
		return
	}
	g.asked[kind] = now
	g.m.reports.ask(kind)
	g.wake(now)
}

// wake makes the next tick, in which clients and types expire, due within gatewayStatusEvery.
func (g *gateway) wake(now time.Time) {
	if g.at.IsZero() {
		g.at = now.Add(gatewayStatusEvery)
	}
}
