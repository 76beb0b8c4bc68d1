package sharding

import (
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// theLane is the only lane of a simulated process.
const theLane = 0

// dataEnv is a process in the role of package calls' environment.
type dataEnv process

var _ calls.Env = (*dataEnv)(nil)

func (v *dataEnv) Self() transport.Peer    { return v.self }
func (v *dataEnv) Calls() *calls.Table     { return &v.pending }
func (v *dataEnv) Table() *placement.Table { return v.table }

func (v *dataEnv) Route(kind []byte, shard uint32) *routing.Route {
	return &v.routes[placement.ShardID{Kind: string(kind), Shard: shard}].Route
}

// EachRoute calls f for all routes, in the order of their shards.
func (v *dataEnv) EachRoute(_ int, f func(*routing.Route)) {
	for _, id := range v.w.ids {
		f(&v.routes[id].Route)
	}
}

// Shard returns a shard. ok is false at a process that hosts no shards.
func (v *dataEnv) Shard(kind []byte, shard uint32) (calls.Shard, bool) {
	s := v.shards[placement.ShardID{Kind: string(kind), Shard: shard}]
	return s, s != nil
}

// EachShard calls f for the shards of a process that hosts them, in order.
func (v *dataEnv) EachShard(_ int, f func(calls.Shard)) {
	for _, id := range v.w.ids {
		if s := v.shards[id]; s != nil {
			f(s)
		}
	}
}

// Returned makes a call from an envelope that came back.
func (v *dataEnv) Returned(e *wire.Envelope, _ int) *shardhost.Call {
	return &newInCall(v.self, e, v.w).Call
}

func (v *dataEnv) Session(to transport.Peer, _ int) (calls.Session, bool) {
	l := (*process)(v).link(to.Address)
	return l, l != nil
}

// Peers returns the processes with which this one has exchanged messages.
func (v *dataEnv) Peers() (all []transport.Address) {
	for _, l := range (*process)(v).sortedLinks() {
		all = append(all, l.Peer().Address)
	}
	return all
}

// Close closes the link to a process, even a removed one.
func (v *dataEnv) Close(a transport.Address, lane int, bye bool) (left []calls.Left, ok bool) {
	if v.gone[a] {
		return nil, false
	}
	l := v.links[a]
	if lane == calls.AllLanes {
		delete(v.links, a)
		v.gone[a] = true
	}
	v.silent = append(v.silent, a)
	if l != nil {
		left = append(left, l.remains(bye))
	}
	return left, true
}

// Renew makes a new link in place of one that the peer has dropped.
func (v *dataEnv) Renew(s calls.Session) (next calls.Session, left *calls.Left) {
	p, l, a := (*process)(v), s.(*link), s.Peer().Address
	p.w.log("%s: %s has dropped the session", p.name, a.Name)
	delete(p.links, a)
	next = p.link(a)
	closed := l.remains(false)
	return next, &closed
}

// Part does nothing, as if the goodbye were lost.
func (v *dataEnv) Part(transport.Address) {}

// Knows reports whether a process is a member, or was one until it left or was removed.
func (v *dataEnv) Knows(a transport.Address) bool {
	return v.host && (v.control.Knows(a) || v.Parted(a))
}

// MarkLeft records that a process has left in order. It may still send a goodbye.
func (v *dataEnv) MarkLeft(a transport.Address) {
	v.left[a] = true
	(*process)(v).partIfStranger(a)
}

// partIfStranger closes the link to a member that has left and does not listen any more, if no
// message ever came on that link: see peers.Env.
func (p *process) partIfStranger(a transport.Address) {
	if l := p.links[a]; p.left[a] && l != nil && l.Unreached() {
		p.data.PeerGone(a, 0, false)
	}
}

// Parted reports whether a process has left, or was removed.
func (v *dataEnv) Parted(a transport.Address) bool { return v.left[a] || v.gone[a] }

func (v *dataEnv) After(d time.Duration, f func()) { (*process)(v).after(d, f) }

func (v *dataEnv) Unacknowledged() func() bool {
	var streams []*peers.Stream
	for _, l := range v.links {
		streams = append(streams, &l.Stream)
	}
	return peers.Unacknowledged(streams, v.Now)
}

func (v *dataEnv) StopReceiving() { v.deaf = true }

func (v *dataEnv) Now() time.Time { return v.w.now }

// Forgive allows links to a process again that was removed.
func (v *dataEnv) Forgive(a transport.Address) { delete(v.gone, a) }

// Count fails the run for an envelope that refers to nothing, because every process hosts every
// shard to which the other processes send anything.
func (v *dataEnv) Count(e calls.Counter) {
	if e == calls.Ignored {
		v.w.fail("%s: an envelope refers to nothing", v.name)
	}
}

func (v *dataEnv) Refused(wire.Code) {}

func (v *dataEnv) Lost(e *wire.Envelope, how calls.Loss) { v.w.oracle.lose(e, "%v", how) }

// TellRefused reports a refused tell to the oracle. It does not report an envelope that was a call
// whose time is over.
func (v *dataEnv) TellRefused(_ calls.Session, e *wire.Envelope) {
	if e.ID == 0 {
		v.w.oracle.refusedTells++
	}
}

func (v *dataEnv) Renewed(left *calls.Left, lost int) {
	v.w.log("%s: %d unacknowledged, %d calls lost", v.name, len(left.Unacknowledged), lost)
}
