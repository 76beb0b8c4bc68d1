package sim

import (
	"github.com/shardgen/shardgen/runtime/membership"
)

// Kill ends a process at once. Its connection ends with it, and its server knows.
func (w *World) Kill(n *Node) {
	w.trace.line(w.now, "kill %v", n.Address)
	w.end(n)
}

// KillHost ends a process with its host: nobody closes the connection, and the
// server believes that the node listens until HostTimeout has passed.
func (w *World) KillHost(n *Node) {
	w.trace.line(w.now, "the host of %v vanishes", n.Address)
	if n.ended {
		return
	}
	n.ended, n.connected = true, false
	w.wakes.set(n, -1)
	n.waiting, n.sent = nil, nil
	conn := n.conn
	w.After(w.config.HostTimeout, func() {
		if n.conn == conn {
			w.hangUp(n)
		}
	})
}

// Freeze makes a process stand still, as SIGSTOP does. Its connection lives, and
// what is sent to it waits. After HostTimeout its server gives it up.
func (w *World) Freeze(n *Node) {
	if n.frozen || n.ended {
		return
	}
	w.trace.line(w.now, "freeze %v", n.Address)
	n.frozen = true
	w.wakes.set(n, -1)
	conn := n.conn
	w.After(w.config.HostTimeout, func() {
		if n.conn == conn && n.frozen {
			w.hangUp(n)
		}
	})
}

// Thaw lets a process go on. What comes first, its timer or what waited, is left
// to chance.
func (w *World) Thaw(n *Node) {
	if !n.frozen || n.ended {
		return
	}
	defer w.catch()
	w.trace.line(w.now, "thaw %v", n.Address)
	n.frozen = false
	waiting := n.waiting
	n.waiting = nil
	late := w.random.IntN(2) == 0 && len(waiting) > 0
	if !late {
		w.step(n, membership.Tick{})
	}
	for _, in := range waiting {
		w.step(n, in)
	}
	if late {
		w.step(n, membership.Tick{})
	}
	if n.connected && !n.registered {
		w.disconnect(n)
	}
}

// Lose makes the node lose a share of its messages, both ways.
// With a share of 1 that direction is dead.
func (w *World) Lose(n *Node, in, out float64) {
	w.trace.line(w.now, "%v loses %v in, %v out", n.Address, in, out)
	n.lossIn, n.lossOut = in, out
	switch dead := in >= 1 || out >= 1; {
	case dead && n.brokenSince < 0:
		n.brokenSince = w.now
		if w.config.PingTimeout > 0 {
			w.After(w.config.PingTimeout, func() {
				if n.brokenSince >= 0 && w.now-n.brokenSince >= w.config.PingTimeout && !n.frozen {
					w.disconnect(n)
				}
			})
		}
	case !dead:
		n.brokenSince = -1
	}
}

// LoseAll makes every message get lost with this probability, for each receiver
// by itself.
func (w *World) LoseAll(share float64) {
	w.trace.line(w.now, "all lose %v", share)
	w.loss = share
}

// Cut makes messages of one server to another vanish. If that lasts for
// RouteTimeout, they give up their connection in both directions.
func (w *World) Cut(from, to *Server) {
	way := &w.ways[from.index][to.index]
	if way.hole || from == to {
		return
	}
	w.trace.line(w.now, "what %s sends to %s vanishes", from.name, to.name)
	way.hole, way.since = true, w.now
	w.After(w.config.RouteTimeout, func() {
		if way.hole && w.now-way.since >= w.config.RouteTimeout {
			w.closeRoute(from, to)
		}
	})
}

// Part ends the connection between two servers at once, and keeps it from being
// made again.
func (w *World) Part(a, b *Server) {
	if a == b {
		return
	}
	w.Cut(a, b)
	w.Cut(b, a)
	w.closeRoute(a, b)
}

// Mend lets two servers reach each other again.
func (w *World) Mend(a, b *Server) {
	if a == b {
		return
	}
	w.trace.line(w.now, "mend %s and %s", a.name, b.name)
	w.ways[a.index][b.index].hole, w.ways[b.index][a.index].hole = false, false
	if w.ways[a.index][b.index].route {
		w.openRoute(a, b)
		return
	}
	w.After(w.config.Redial, func() { w.openRoute(a, b) })
}

// Whole reports whether every server reaches every other.
func (w *World) Whole() bool {
	for i, a := range w.servers {
		for j, b := range w.servers {
			if i != j && (!w.passes(a, b) || w.ways[i][j].hole) {
				return false
			}
		}
	}
	return true
}

// StopServer takes a server down: its connections end.
func (w *World) StopServer(s *Server) {
	if !s.up {
		return
	}
	defer w.catch()
	w.trace.line(w.now, "%s stops", s.id)
	s.up = false
	for _, o := range w.servers {
		if o != s {
			w.closeRoute(s, o)
		}
	}
	for _, n := range w.nodes {
		if n.server != s || !n.registered {
			continue
		}
		if n.ended || n.frozen {
			w.hangUp(n) // nobody there to notice yet
			continue
		}
		w.disconnect(n)
	}
}

// StartServer starts a stopped server as a new instance.
func (w *World) StartServer(s *Server) {
	if s.up {
		return
	}
	s.up = true
	s.instance++
	s.named()
	w.trace.line(w.now, "%s starts", s.id)
	for _, o := range w.servers {
		if o != s {
			w.After(w.config.Redial, func() { w.openRoute(s, o) })
		}
	}
}
