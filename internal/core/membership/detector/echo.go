package detector

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/message"
)

// An Echo sends messages, called echoes, from this node to itself through the broker. While the
// echoes do not return, this node must not take the silence of another member as a failure of that
// member.
type Echo struct {
	*core.Base
	At      time.Time // when the next echo is due
	seq     uint64
	pending []sentEcho // sent through this connection and not yet returned
	Sent    time.Time  // when the last returned echo was sent
	Good    bool       // an echo came back through this connection
	// Muffled is when an echo last returned after a gap longer than SelfHeartbeatTimeout.
	Muffled time.Time
}

type sentEcho struct {
	seq  uint64
	sent time.Time
}

// maxEchoes bounds the awaited echoes. A node sends fewer within SelfHeartbeatTimeout.
const maxEchoes = 64

// ResetEcho forgets the echoes sent through the former connection, and makes the next echo due.
func (e *Echo) ResetEcho() {
	e.Good, e.pending = false, nil
	e.At = e.Now
}

// RunEcho sends an echo when it is due.
func (e *Echo) RunEcho() {
	if e.Phase != core.Joined && !(e.Phase == core.Asking && e.Config.Table.Enabled) || !e.Due(&e.At, e.Config.EchoInterval) || !e.Conn.Connected {
		return
	}
	e.seq++
	if len(e.pending) == maxEchoes {
		e.pending = slices.Delete(e.pending, 0, 1)
	}
	e.pending = append(e.pending, sentEcho{e.seq, e.Now})
	e.Send(e.Config.Self, message.Echo{Seq: e.seq})
}

// AwaitsEcho reports whether the echo seq was sent through this connection and has not returned
// yet.
func (e *Echo) AwaitsEcho(seq uint64) bool {
	return slices.ContainsFunc(e.pending, func(x sentEcho) bool { return x.seq == seq })
}

// NoteMuffled records in Muffled the time at which echoes return again after a gap.
func (e *Echo) NoteMuffled() {
	if last := e.Sent; !last.IsZero() && e.Now.Sub(last) > e.Config.SelfHeartbeatTimeout {
		e.Muffled = e.Now
	}
}

// EchoReturned handles the return of an awaited echo.
func (e *Echo) EchoReturned(seq uint64) {
	i := slices.IndexFunc(e.pending, func(x sentEcho) bool { return x.seq == seq })
	e.Sent, e.Good = e.pending[i].sent, true
	e.pending = slices.Delete(e.pending, 0, i+1)
}

// EchoAlive reports whether the connection to the broker works in both directions.
func (e *Echo) EchoAlive() bool {
	return e.Conn.Connected && e.Good && e.Now.Sub(e.Sent) <= e.Config.SelfHeartbeatTimeout
}
