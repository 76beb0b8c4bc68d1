package control

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/transport"
)

// Bounds of what clients may cost a member. The bounds for the clients of one name are lower, so
// that a flood from one name leaves room for others.
const (
	// maxClients and maxNamed bound the clients of a member, in total and of one name.
	maxClients = 4096
	maxNamed   = 1024
	// newClients and newNamed bound the new clients in each limitEvery, in total and of one name.
	newClients = 512
	newNamed   = 128
	// maxHellos and namedHellos bound the answered hellos in each limitEvery: of one client, and of
	// one name.
	maxHellos   = 64
	namedHellos = 2 * maxNamed
	// maxRefused bounds the refusals sent to one name in each limitEvery.
	maxRefused = 16
	limitEvery = time.Second
	// maxAsked and maxNamedAsked bound the types that clients wait for, in total and for one name.
	maxAsked      = 1024
	maxNamedAsked = 256
	// maxAskers bounds the clients to which one reason is sent. Further clients get a later reason.
	maxAskers = 256
)

type quota struct {
	since time.Time
	n     int
}

// take counts one event, or reports false if limit events were counted in this period.
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

type namedClients struct {
	clients int // number of clients that are served
	asked   int // number of types that these clients wait for
	// met, hellos and refused count new clients, hellos and refusals.
	met, hellos, refused quota
	seen                 time.Time // when one of these clients last sent something
}

type clientsByName map[string]*namedClients

func (c clientsByName) of(name string, now time.Time) *namedClients {
	of := c[name]
	if of == nil {
		of = &namedClients{}
		c[strings.Clone(name)] = of
	}
	of.seen = now
	return of
}

func (g *gateway) admit(from transport.Peer, now time.Time) *servedClient {
	of, client := g.clientsOf(from.Name, now), g.clients[from.Address]
	if client == nil {
		if of.clients >= maxNamed {
			g.refuse(from, fmt.Sprintf("it already serves %d processes called %s, the maximum for one name (use different names, or close connections)", maxNamed, from.Name), now)
			return nil
		}
		if len(g.clients) >= maxClients || !of.met.take(now, newNamed) || !g.met.take(now, newClients) {
			g.m.env.Count(OverQuota)
			return nil
		}
		client = &servedClient{peer: from}
		g.clients[from.Address] = client
		of.clients++
	}
	if !client.hellos.take(now, maxHellos) || !of.hellos.take(now, namedHellos) {
		g.m.env.Count(OverQuota)
		return nil
	}
	return client
}

type askedType struct {
	at time.Time
	by string // name of the first client that asked
	// askers are the clients that have asked since the last reason was sent. No client is in it
	// twice.
	askers []transport.Peer
}

func (g *gateway) ask(from transport.Peer, kind string, now time.Time) {
	of := g.clientsOf(from.Name, now)
	asked, known := g.asked[kind]
	switch {
	case known:
	case len(g.asked) >= maxAsked || of.asked >= maxNamedAsked || len(kind) > bounded.Most:
		g.m.env.Count(OverQuota)
		return
	default:
		of.asked++
		asked.by = strings.Clone(from.Name)
	}
	asked.at = now
	if len(asked.askers) < maxAskers && !slices.Contains(asked.askers, from) {
		from.Name = strings.Clone(from.Name) // it may be a part of a message, and keep that in memory
		asked.askers = append(asked.askers, from)
	}
	g.asked[kind] = asked
	g.m.reports.ask(kind)
}

// clientsOf returns the entry of a name. It makes sure that a tick will come, because ticks forget
// old entries.
func (g *gateway) clientsOf(name string, now time.Time) *namedClients {
	if g.at.IsZero() {
		g.at = now.Add(gatewayStatusEvery)
	}
	return g.named.of(name, now)
}
