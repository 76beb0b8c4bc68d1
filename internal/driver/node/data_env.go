package node

import (
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type dataEnv Driver

var _ calls.Env = (*dataEnv)(nil)

func (v *dataEnv) Self() transport.Peer { return v.Local }

// Calls returns the calls that wait for their answers.
func (v *dataEnv) Calls() *calls.Table { return &v.Pending }

// Table returns the latest shard table.
func (v *dataEnv) Table() *placement.Table { return v.ShardTable.Load() }

// Route returns the route of a shard, or nil if this process knows no such shard.
func (v *dataEnv) Route(kind []byte, shard uint32) *routing.Route {
	if k := (*v.Kinds.Load())[string(kind)]; k != nil {
		if r := k.Route(shard); r != nil {
			return &r.Route
		}
	}
	return nil
}

// EachRoute calls f for the routes of a lane, or of all lanes.
func (v *dataEnv) EachRoute(lane int, f func(*routing.Route)) {
	for _, k := range *v.Kinds.Load() {
		for i := range k.routes {
			if r := &k.routes[i]; lane < 0 || (*Driver)(v).LaneOf(r.shard) == lane {
				f(&r.Route)
			}
		}
	}
}

// Shard returns a shard of a type that this process hosts.
func (v *dataEnv) Shard(kind []byte, shard uint32) (calls.Shard, bool) {
	k := (*v.Kinds.Load())[string(kind)]
	if k == nil {
		return nil, false
	}
	s := k.Hosted(shard)
	return s, s != nil
}

// EachShard calls f for the shards of a lane, or of all lanes.
func (v *dataEnv) EachShard(lane int, f func(calls.Shard)) {
	for _, k := range *v.Kinds.Load() {
		if k.Host != nil {
			k.Host.eachShard(lane, func(s *HostedShard) { f(s) })
		}
	}
}

// Knows reports whether a process is a member, has left, or was removed.
func (v *dataEnv) Knows(a transport.Address) bool { return (*Driver)(v).Knows(a) }

// MarkLeft records that a member left gracefully.
func (v *dataEnv) MarkLeft(a transport.Address) { v.Sessions.MarkLeft(a) }

// Parted reports whether a process has left or was removed.
func (v *dataEnv) Parted(a transport.Address) bool { return (*Driver)(v).parted(a) }

func (v *dataEnv) Now() time.Time { return time.Now() }

func (v *dataEnv) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		if !(*Driver)(v).Closed() {
			f()
		}
	})
}

// Returned makes a call again from the envelope of a call that this process forwarded and got back.
func (v *dataEnv) Returned(e *wire.Envelope, lane int) *shardhost.Call {
	return &newInCall((*Driver)(v), v.Local, e, lane, time.Now()).Call
}

func (v *dataEnv) Session(to transport.Peer, lane int) (calls.Session, bool) {
	p := v.Sessions.Session(to, lane)
	return p, p != nil
}

func (v *dataEnv) Peers() []transport.Address { return v.Sessions.Addresses() }

// Close closes the session with a process on the lane or, if lane is negative, all sessions with
// the process. left has what the closed sessions leave behind.
func (v *dataEnv) Close(a transport.Address, lane int, bye bool) (left []calls.Left, ok bool) {
	if l := v.Direct.Load(); l != nil && lane < 0 {
		l.Gone(a)
	}
	closed, ok := v.Sessions.Remove(a, lane, bye)
	for i := range closed {
		left = append(left, leftOf(&closed[i]))
	}
	return left, ok
}

func leftOf(l *peers.Left) calls.Left {
	return calls.Left{Session: l.Session, Lane: l.Session.Lane(), Unacknowledged: l.Unacknowledged, Stopped: l.Stopped}
}

// Renew begins a new session in place of s, which the peer has dropped. left has what s leaves
// behind.
func (v *dataEnv) Renew(s calls.Session) (next calls.Session, left *calls.Left) {
	p, closed := v.Sessions.Replace(s.(*peers.Session))
	if p != nil {
		next = p
	}
	if closed != nil {
		l := leftOf(closed)
		left = &l
	}
	return next, left
}

// Part sends a goodbye, on all lanes, to a process that has probably ended.
func (v *dataEnv) Part(a transport.Address) {
	for lane := range v.Config.Lanes {
		if p := v.Sessions.Known(a, lane); p != nil {
			p.Part()
		}
	}
}

// Unacknowledged is peers.Unacknowledged for all sessions, but its function also reports true while
// ending turns have not sent their answers.
func (v *dataEnv) Unacknowledged() func() bool {
	var streams []*peers.Stream
	for _, p := range v.Sessions.All() {
		streams = append(streams, &p.Stream)
	}
	unacknowledged := peers.Unacknowledged(streams, time.Now)
	return func() bool { return v.answering.Load() > 0 || unacknowledged() }
}

func (v *dataEnv) StopReceiving() {
	v.deaf.Store(true)
	for _, p := range v.Sessions.All() {
		p.Receiving.Lock()
		//lint:ignore SA2001 the frame under way has ended
		p.Receiving.Unlock()
	}
}

// Forgive lets this process have sessions with a removed process again.
func (v *dataEnv) Forgive(a transport.Address) { v.Sessions.Forgive(a) }

var dataReasons = [...]Reason{
	calls.Ignored: FrameIgnored,
	calls.NoPeer:  dropNoPeer,
	calls.Retried: callRetried,
}

func (v *dataEnv) Count(e calls.Counter) { v.Counts.Add(dataReasons[e]) }

// Refused counts a call that was refused with a code.
func (v *dataEnv) Refused(code wire.Code) { (*Driver)(v).refused(code) }

func (v *dataEnv) Lost(e *wire.Envelope, how calls.Loss) {
	switch {
	case e.Type != wire.TypeTell:
	case how == calls.LostUnacknowledged:
		v.Undelivered.lose(&v.Counts, calls.Unknown)
	default: // a tell of another process
		v.Counts.Add(tellLost)
	}
}

// TellRefused counts a tell that the peer refused to run. It logs only some of these tells, because
// there may be very many.
func (v *dataEnv) TellRefused(from calls.Session, e *wire.Envelope) {
	v.Undelivered.Unsent.Add(1)
	n, tell := v.Counts.AddSeldom(tellLost)
	if !tell || e.Code == wire.CodeDropped { // the handoff mode of its type drops calls
		return
	}
	env, _ := from.Find(e.Seq) // the envelope, if it is still known
	v.Logger.Warn("tell refused", "by", from.Peer().Address, "kind", clip(string(e.Kind)), "entity", clip(string(env.Entity)),
		"method", clip(string(env.Method)), "code", int(e.Code), "why", bounded.Text(string(e.Text)), "lost so far", n)
}

// Renewed logs that a member had dropped a session.
func (v *dataEnv) Renewed(left *calls.Left, lost int) {
	v.Logger.Warn("a member has dropped its state of this connection, which was away for too long",
		"member", left.Session.Peer().Address, "lane", left.Lane, "unacknowledged", len(left.Unacknowledged), "calls without an answer", lost)
}
