package sim

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A Server is a server of the broker's cluster.
type Server struct {
	index    int
	name     string
	instance int
	id       string // of this instance
	up       bool
	still    time.Duration // when its standstill ends
	nodes    []*Node       // the nodes that are connected in the server's view, in the order of connecting
	dirty    bool          // nodes holds some that have ended
	serving  int           // how many nodes answer probes, as far as the server knows
}

func (s *Server) named() { s.id = fmt.Sprintf("%s/%d", s.name, s.instance) }

func (s *Server) Name() string { return s.name }

// Place returns the running instance's name in rows of a table.
func (s *Server) Place() string { return s.name + " " + s.id }

func (s *Server) Up() bool { return s.up }

type way struct {
	route bool // the servers are connected, and report their listeners to each other
	hole  bool // messages vanish
	since time.Duration
}

type broker struct{ *World }

func (w broker) dial(n *Node, s *Server) bool {
	if !s.up || w.now < s.still || n.lossIn >= 1 || n.lossOut >= 1 {
		w.redialLater(n)
		return false
	}
	n.server, n.connected, n.registered = s, true, true
	n.conn++
	n.lastUp = w.now
	s.nodes = append(s.nodes, n)
	w.learn(n, s, true)
	w.tellOthers(n)
	w.trace.line(w.now, "%v connects to %s", n.Address, s.id)
	n.step(w.World, membership.ConnState{Connected: true, Server: s.id, Alone: len(w.servers) == 1, Name: s.name})
	network(w).repeat(n)
	return true
}

func (w broker) hangUp(n *Node) {
	if !n.registered {
		return
	}
	n.registered = false
	n.closedAt = w.now
	n.server.dirty = true
	w.learn(n, n.server, false)
	w.tellOthers(n)
}

func (w broker) disconnect(n *Node) {
	if n.ended || !n.connected {
		return
	}
	w.hangUp(n)
	n.connected = false
	w.trace.line(w.now, "%v is disconnected", n.Address)
	n.step(w.World, membership.ConnState{})
	w.redialLater(n)
}

func (w broker) redialLater(n *Node) {
	if n.redialing || n.ended {
		return
	}
	n.redialing = true
	wait := w.config.Redial + time.Duration(w.random.Int64N(int64(w.config.Redial)/2+1))
	w.queue.put(w.now+wait, eventRedial).to = n
}

// redial connects a node to its own server. With Config.Failover the node may take the next server
// that is up.
func (w broker) redial(n *Node) {
	n.redialing = false
	if n.ended || n.connected {
		return
	}
	if n.frozen {
		w.redialLater(n)
		return
	}
	s := n.home
	if w.config.Failover {
		for range w.servers {
			if s.up {
				break
			}
			s = w.servers[(s.index+1)%len(w.servers)]
		}
	}
	w.dial(n, s)
}

func (w broker) learn(n *Node, s *Server, listens bool) {
	if n.known[s.index] == listens {
		return
	}
	n.known[s.index] = listens
	if n.serves {
		if listens {
			s.serving++
		} else {
			s.serving--
		}
	}
}

func (w broker) tellOthers(n *Node) {
	for _, s := range w.servers {
		if s != n.server {
			e := w.queue.put(w.now+w.config.Spread, eventSync)
			e.to, e.server = n, s
		}
	}
}

func (w broker) sync(n *Node, s *Server) {
	way := &w.ways[n.server.index][s.index]
	if s != n.server && way.route && !way.hole && s.up {
		w.learn(n, s, n.registered)
	}
}

func (w broker) served(n *Node, change int) {
	for _, s := range w.servers {
		if n.known[s.index] {
			s.serving += change
		}
	}
}

func (w broker) startServing(n *Node) {
	if !n.serves {
		n.serves = true
		w.served(n, 1)
	}
}

// claim makes the node answer other nodes' probes once its server has received the claim.
func (w broker) claim(n *Node, number uint64) {
	n.claims = number
	conn, at := n.conn, network(w).up(n)
	w.At(at, func() {
		if n.claims == number && n.registered && n.conn == conn {
			w.startServing(n)
			w.input(n, w.now+w.config.Latency, membership.Claimed{Number: number})
		}
	})
}

func (w broker) stopServing(n *Node) {
	if n.serves {
		w.served(n, -1)
		n.serves = false
	}
}

// probe sends a probe to the node's server. The node gets Vacant if the server then knows no serving
// node.
func (w broker) probe(n *Node) {
	conn := n.conn
	w.At(network(w).up(n), func() {
		if n.registered && n.conn == conn && n.server.serving == 0 {
			w.input(n, w.now+w.config.Latency, membership.Vacant{})
		}
	})
}

// ask makes n ask the server q.Server whether q.Peer listens there. No answer comes if the server does
// not run, or n is cut off in one direction.
func (w broker) ask(n *Node, q membership.Question) {
	for _, s := range w.servers {
		if message.MarkOf(s.id) != q.Server || !s.up || w.now < s.still || n.lossIn >= 1 || n.lossOut >= 1 {
			continue
		}
		id, peer := s.id, w.byName[q.Peer]
		w.After(4*w.config.Latency, func() {
			if s.id != id || !s.up || w.now < s.still || peer == nil {
				return
			}
			in := membership.Asked{Question: q, Listens: peer.known[s.index]}
			w.After(w.config.Latency, func() { n.step(w.World, in) })
		})
	}
}

// input makes n receive an input at the given time. If n loses its present connection before that
// time, n does not receive the input.
func (w broker) input(n *Node, at time.Duration, in membership.Input) {
	e := w.queue.put(at, eventInput)
	e.to, e.receiver, e.in = n, n.conn, in
}

func (w broker) closeRoute(a, b *Server) {
	if !w.ways[a.index][b.index].route {
		return
	}
	w.ways[a.index][b.index].route, w.ways[b.index][a.index].route = false, false
	w.trace.line(w.now, "%s and %s lose each other", a.name, b.name)
	for _, n := range w.nodes {
		switch n.server {
		case a:
			w.learn(n, b, false)
		case b:
			w.learn(n, a, false)
		}
	}
}

func (w broker) openRoute(a, b *Server) {
	to, back := &w.ways[a.index][b.index], &w.ways[b.index][a.index]
	if a == b || !a.up || !b.up || to.hole || back.hole {
		return
	}
	to.route, back.route = true, true
	for _, n := range w.nodes {
		switch n.server {
		case a:
			w.syncLater(n, b)
		case b:
			w.syncLater(n, a)
		}
	}
}

func (w broker) syncLater(n *Node, s *Server) {
	e := w.queue.put(w.now+w.config.Spread, eventSync)
	e.to, e.server = n, s
}

func (s *Server) compact() {
	if !s.dirty {
		return
	}
	s.dirty = false
	kept := s.nodes[:0]
	seen := make(map[*Node]bool, len(s.nodes))
	for _, n := range s.nodes {
		if n.server == s && n.registered && !seen[n] {
			seen[n] = true
			kept = append(kept, n)
		}
	}
	clear(s.nodes[len(kept):])
	s.nodes = kept
}
