package control

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/transport"
)

// Bounds of the memory and work that processes outside the cluster may cost a member. A client
// repeats a hello that was not answered. The clients of one name, granted by the broker, have lower
// bounds than all clients together, so that a flood from one name leaves room for other names.
const (
	// maxClients bounds the clients that a member serves, and maxNamed those of one name. Further
	// ones are refused until another client has said goodbye, or has sent no hello for
	// gatewayForget.
	maxClients = 4096
	maxNamed   = 1024
	// newClients and newNamed bound the new clients in each limitEvery, in total and of one name.
	newClients = 512
	newNamed   = 128
	// maxHellos and namedHellos bound the hellos that are answered in each limitEvery: of one
	// client, and of all clients of one name.
	maxHellos   = 64
	namedHellos = 2 * maxNamed
	// maxRefused bounds the refusals that are sent to the clients of one name in each limitEvery.
	maxRefused = 16
	// limitEvery is the period in which new clients, hellos and refusals are counted.
	limitEvery = time.Second
	// maxAsked bounds the types that clients wait for, and maxNamedAsked those of one name's
	// clients. The coordinator is not asked for further types.
	maxAsked      = 1024
	maxNamedAsked = 256
	// maxAskers bounds the clients that are sent one reason why calls of a type wait. Other clients
	// are sent a later one.
	maxAskers = 256
)

// A quota counts events in a period of limitEvery. The zero value is empty.
type quota struct {
	since time.Time
	n     int
}

// take counts one more event. If limit events were already counted in this period, take does not
// count the event and reports false.
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

// namedClients counts the memory and work that the clients of one name cost.
type namedClients struct {
	clients int // number of clients that are served
	asked   int // number of types that they wait for
	// met, hellos and refused count new clients, hellos and refusals.
	met, hellos, refused quota
	seen                 time.Time // when one of them last sent something
}

// clientsByName has the clients that sent something lately, by name.
type clientsByName map[string]*namedClients

// of returns the entry of a name, and makes it if there is none.
func (c clientsByName) of(name string, now time.Time) *namedClients {
	of := c[name]
	if of == nil {
		of = &namedClients{}
		c[strings.Clone(name)] = of
	}
	of.seen = now
	return of
}

// admit returns the client that has sent a hello, and adds the client if it is new. It returns nil
// if a new client would exceed the bounds.
func (g *gateway) admit(from transport.Peer, now time.Time) *servedClient {
	of, client := g.clientsOf(from.Name, now), g.clients[from.Address]
	if client == nil {
		if of.clients >= maxNamed {
			g.refuse(from, fmt.Sprintf("it serves %d processes called %s, which is the maximum (give processes names of their own, or close connections)", maxNamed, from.Name), now)
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

// An askedType is a type whose homes clients wait for.
type askedType struct {
	at time.Time
	by string // name of the first client that asked
	// askers are the clients that have asked since the last reason was sent. Each is in it once.
	askers []transport.Peer
}

// ask records that a client waits for a home of the type, and asks the coordinator for one.
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
		from.Name = strings.Clone(from.Name) // it may be a part of a message
		asked.askers = append(asked.askers, from)
	}
	g.asked[kind] = asked
	g.m.reports.ask(kind)
}

// clientsOf returns the entry of a name. It makes the next tick due within gatewayStatusEvery,
// because the tick forgets old clients, names and types.
func (g *gateway) clientsOf(name string, now time.Time) *namedClients {
	if g.at.IsZero() {
		g.at = now.Add(gatewayStatusEvery)
	}
	return g.named.of(name, now)
}
