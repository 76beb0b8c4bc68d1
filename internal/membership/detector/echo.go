package detector

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/core"
	"github.com/shardgen/shardgen/internal/membership/message"
)

// An Echo sends messages of a node to itself through the broker. Only a node whose own
// messages come back may conclude from the silence of others that they are missing.
type Echo struct {
	*core.Node
	At      time.Time // when the next echo is due
	seq     uint64
	pending []sentEcho // on their way, through this connection
	Sent    time.Time  // when the last echo was sent that came back
	Good    bool       // an echo came back through this connection
	// Muffled is when echoes last came back after they had stayed away for longer than
	// LeaseEcho.
	Muffled time.Time
}

// A sentEcho is an echo on its way.
type sentEcho struct {
	seq  uint64
	sent time.Time
}

// maxEchoes bounds the echoes on their way: more than a lease holds.
const maxEchoes = 64

// ResetEcho begins anew over a new connection.
func (e *Echo) ResetEcho() {
	e.Good, e.pending = false, nil
	e.At = e.Now
}

// RunEcho sends a message through the broker to oneself. Only a node whose own
// messages come back may take the silence of others for theirs.
func (e *Echo) RunEcho() {
	if e.Phase != core.Joined || !e.Due(&e.At, e.Config.EchoInterval) || !e.Conn.Connected {
		return
	}
	e.seq++
	if len(e.pending) == maxEchoes {
		e.pending = slices.Delete(e.pending, 0, 1)
	}
	e.pending = append(e.pending, sentEcho{e.seq, e.Now})
	e.Send(e.Config.Self, message.Echo{Seq: e.seq})
}

// AwaitsEcho reports whether the echo was sent over this connection and has not
// returned yet.
func (e *Echo) AwaitsEcho(seq uint64) bool {
	return slices.ContainsFunc(e.pending, func(x sentEcho) bool { return x.seq == seq })
}

// NoteMuffled notes that echoes come back after they had stayed away.
func (e *Echo) NoteMuffled() {
	if last := e.Sent; !last.IsZero() && e.Now.Sub(last) > e.Config.LeaseEcho {
		e.Muffled = e.Now
	}
}

// EchoReturned takes an echo that is awaited.
func (e *Echo) EchoReturned(seq uint64) {
	i := slices.IndexFunc(e.pending, func(x sentEcho) bool { return x.seq == seq })
	e.Sent, e.Good = e.pending[i].sent, true
	e.pending = slices.Delete(e.pending, 0, i+1)
}

// EchoAlive reports whether the connection to the broker works in both directions.
func (e *Echo) EchoAlive() bool {
	return e.Conn.Connected && e.Good && e.Now.Sub(e.Sent) <= e.Config.LeaseEcho
}
