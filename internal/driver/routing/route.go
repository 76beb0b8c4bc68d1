package routing

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Target is where a route sends calls. A Target never changes: to send calls elsewhere, the route
// gets another Target.
type Target struct {
	Local   Local   // the shard at this process; else nil
	Session Session // the session with another process; else nil
	Epoch   placement.Epoch
}

// A Route drives the state machine of one route, the stream.Route in Core. It is safe for
// concurrent use. The lock of the target's session guards Core.LastSeq, and Mu guards the other
// fields of Core.
type Route struct {
	Mu   sync.Mutex
	Core stream.Route

	env    Env
	kind   []byte
	shard  uint32
	target atomic.Pointer[Target] // nil: calls are held in the route
	taken  func()                 // nil, or called when calls were taken back
	most   int                    // 1 + the number of calls that may be held; 0 means that only Env bounds this number
	left   time.Time              // when calls stopped going to the last target; zero means that there is a target, or never was one
}

// Init makes the route of a shard, without a target. It is called once, before any other method.
func (r *Route) Init(env Env, kind []byte, shard uint32) { r.env, r.kind, r.shard = env, kind, shard }

// HoldAtMost makes the route hold at most n calls; n is 0 or more. A route that holds n calls drops
// the oldest of them for each further call. HoldAtMost is called before the route is used.
func (r *Route) HoldAtMost(n int) { r.most = n + 1 }

// OnTaken sets f to be called, without a lock, after the route has taken back calls that a home has
// refused or not run. OnTaken is called before the route is used.
func (r *Route) OnTaken(f func()) { r.taken = f }

// Shard returns the shard that the route leads to.
func (r *Route) Shard() placement.ShardID {
	return placement.ShardID{Kind: string(r.kind), Shard: r.shard}
}

// Kind returns the name of the shard's type. The caller must not change the bytes.
func (r *Route) Kind() []byte { return r.kind }

// Target returns where calls go at the moment; nil means that the route holds calls. A sender must
// lock the target, and then check that Target still returns the same target.
func (r *Route) Target() *Target { return r.target.Load() }

// Send brings an ask or a tell to the route's target, or holds it until there is a target. An error
// means that the ask or tell will never be sent. The Carrier must not keep the envelope.
func (r *Route) Send(e *wire.Envelope, by Carrier) error {
	for try := 0; ; try++ {
		if try > 0 {
			if err := r.env.Retry(try); err != nil {
				return err
			}
		}
		t := r.target.Load()
		if t != nil {
			e.Epoch = uint64(t.Epoch)
		}
		var settled bool
		var err error
		switch {
		case t == nil:
			settled, err = r.hold(e)
		case t.Local != nil:
			settled, err = by.Here(t)
		default:
			s := t.Session
			s.Lock()
			if r.target.Load() != t {
				s.Unlock()
				continue
			}
			seq, failed := by.AppendLocked(s)
			if failed == nil {
				r.Core.LastSeq = seq
				if e.ID != 0 { // before anybody can publish it
					r.env.Sent(e.ID, s, seq)
				}
				by.PublishUnlock(s)
				return nil
			}
			departed := s.DepartedLocked()
			s.Unlock()
			if !departed {
				return failed
			}
			settled, err = r.hold(e)
		}
		if settled || err != nil {
			return err
		}
	}
}

func (r *Route) hold(e *wire.Envelope) (held bool, err error) {
	r.Mu.Lock()
	if t := r.target.Load(); t != nil && (t.Local != nil || !t.Session.HasDeparted()) {
		r.Mu.Unlock()
		return false, nil
	}
	if err := r.env.Admit(e.KeptSize(), e.ID == 0); err != nil {
		r.Mu.Unlock()
		return false, err
	}
	out := stream.Outgoing{Envelope: keep(e), Driver: r.env.Now()}
	var shed []stream.Outgoing
	if r.most > 0 {
		shed = r.Core.HoldWithin(out, r.most-1)
	} else {
		r.Core.Hold(out)
	}
	r.Mu.Unlock()
	r.env.Released(shed)
	r.env.Held(shed)
	return true, nil
}

// keep copies an envelope. The copy shares only bytes that never change: those of Kind, Entity and
// Method.
func keep(e *wire.Envelope) wire.Envelope {
	c := *e
	c.Payload = append([]byte(nil), e.Payload...)
	c.Chain = append([]byte(nil), e.Chain...)
	c.Command = append([]byte(nil), e.Command...)
	c.Info = append([]byte(nil), e.Info...)
	return c
}

// Withdraw removes a held call. It reports false if the call has already left.
func (r *Route) Withdraw(id uint64) bool {
	return r.Drop(func(o stream.Outgoing) bool { return o.Envelope.ID == id }) > 0
}

// Drop drops the held calls for which match reports true, and returns their number.
func (r *Route) Drop(match func(stream.Outgoing) bool) int {
	r.Mu.Lock()
	out := r.Core.Drop(match)
	r.Mu.Unlock()
	r.env.Released(out)
	return len(out)
}

// Home returns the home of the shard as far as the route knows; zero means none.
func (r *Route) Home() transport.Address {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Core.Home
}

// HoldsTells reports whether a tell waits in the route.
func (r *Route) HoldsTells() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Core.Holds(func(o stream.Outgoing) bool { return o.Envelope.ID == 0 })
}

// Unacknowledged reports whether the home, in another process, has yet to acknowledge envelopes of
// the route. It reports false after the home has departed.
func (r *Route) Unacknowledged() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	s, leads := r.homeSession()
	if !leads {
		return false
	}
	s.Lock()
	defer s.Unlock()
	return !s.DepartedLocked() && s.AckedLocked() < r.Core.LastSeq
}

// LeadsTo reports whether process a is the shard's home as far as the route knows.
func (r *Route) LeadsTo(a transport.Address) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Core.Home == a
}

// LeftLocked returns since when calls wait because the shard has left its former home; zero means
// that calls go to a home, or never went to one. The caller holds Mu.
func (r *Route) LeftLocked() time.Time { return r.left }

// Learn takes a placement of the shard: its home and epoch. It ignores a placement whose epoch is
// not newer than the known one, unless force is set. Placements of a new shard table are not
// forced. The table may have been written during a move, and then shows former homes, even if its
// term is later. A wrong home does no harm: it refuses the calls and names the right home.
func (r *Route) Learn(home transport.Address, epoch placement.Epoch, force bool) {
	r.Change(func(acked uint64) stream.Step { return r.learnLocked(home, epoch, acked, force) })
}

// Found takes the placement at which a singleton's instance was found. After the known home has
// departed, the epoch may be lower than before, because the cluster may have been founded again.
func (r *Route) Found(home transport.Address, epoch placement.Epoch) {
	r.Change(func(acked uint64) stream.Step {
		return r.learnLocked(home, epoch, acked, r.Core.State == stream.Unknown)
	})
}

// Returned restores a placement whose home was wrongly taken for departed, unless the route has
// learned another.
func (r *Route) Returned(home transport.Address, epoch placement.Epoch) {
	r.Change(func(acked uint64) stream.Step {
		if r.Core.State != stream.Unknown || r.Core.Epoch != epoch {
			return stream.Step{}
		}
		return r.learnLocked(home, epoch, acked, true)
	})
}

func (r *Route) learnLocked(home transport.Address, epoch placement.Epoch, acked uint64, force bool) stream.Step {
	local := r.Core.Home == r.env.Self().Address
	if force && epoch <= r.Core.Epoch {
		return r.Core.Supersede(home, epoch, acked, local)
	}
	return r.Core.Learn(home, epoch, acked, local)
}

// Refused takes back an envelope that a home has refused. by is the process that has refused it.
// home and epoch are the placement that the refusal names.
func (r *Route) Refused(by transport.Address, e wire.Envelope, home transport.Address, epoch placement.Epoch) {
	out := []stream.Outgoing{{Envelope: e}}
	r.env.Taken(out)
	r.env.Sent(e.ID, nil, 0)
	r.Change(func(acked uint64) stream.Step {
		r.Core.Refused(by, out[0], home, epoch)
		return r.Core.Acked(by, acked)
	})
	r.tookBack()
}

// Acked handles an acknowledgement of the former home, which the route has waited for. by is that
// home, and seq the acknowledged sequence number.
func (r *Route) Acked(by transport.Address, seq uint64) {
	r.Change(func(uint64) stream.Step { return r.Core.Acked(by, seq) })
}

// HomeDeparted records that process a, perhaps the home, has departed. left has the calls that
// process a certainly did not run.
func (r *Route) HomeDeparted(a transport.Address, left []stream.Outgoing) {
	r.env.Taken(left)
	r.Change(func(uint64) stream.Step { return r.Core.HomeDeparted(a, left) })
	r.tookBack()
}

func (r *Route) tookBack() {
	if r.taken != nil {
		r.taken()
	}
}

// BeginAnew forgets every placement. Held calls stay held.
func (r *Route) BeginAnew() {
	r.Change(func(uint64) stream.Step { return r.Core.BeginAnew() })
}

// Change applies f to Core and executes the resulting step before another call for the shard is
// sent. acked is the highest sequence number that the current home has acknowledged.
func (r *Route) Change(f func(acked uint64) stream.Step) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	was, leads := r.homeSession()
	var acked uint64
	if leads {
		was.Lock()
		if acked = was.AckedLocked(); was.DepartedLocked() {
			acked = stream.Departed // envelopes that the peer never handled were taken back when it left
		}
	}
	step := f(acked)
	if r.Core.State != stream.Known || step.Go {
		r.leaveTarget()
	}
	if leads {
		flush := step.FlushTo == was.Peer().Address
		r.leaveLocked(was, step, flush)
		was.Unlock()
		if flush {
			was.Flush()
			step.FlushTo = transport.Address{}
		}
	}
	r.flushElsewhere(step)
	if step.Go {
		r.goTo(step)
	} else if step.Ask && r.Core.Held() > 0 {
		r.env.Ask()
	}
}

// homeSession returns the session with Core's home. It reports false if there is none or the home
// is here.
func (r *Route) homeSession() (Session, bool) {
	if t := r.target.Load(); t != nil {
		return t.Session, t.Session != nil
	}
	if r.Core.Home.IsZero() || r.Core.Home == r.env.Self().Address {
		return nil, false
	}
	return r.env.Known(r.Core.Home)
}

// leaveLocked appends the step's Flush to p, the session with the former home, if flush is set. If
// the route is stopped, p will call r.Acked at the next acknowledgement. The caller has p's lock.
func (r *Route) leaveLocked(p Session, step stream.Step, flush bool) {
	if flush {
		seq, err := p.AppendLocked(r.flush(step))
		if err == nil && r.Core.State == stream.Stopped {
			r.Core.LastSeq = seq
		}
	}
	if r.Core.State == stream.Stopped {
		p.AwaitLocked(r)
	}
}

// flushElsewhere sends a step's Flush to this process or to an earlier home. If the Flush was for
// the home that the route leaves, in another process, Change has sent it already and has set
// FlushTo to zero. flushElsewhere then does nothing.
func (r *Route) flushElsewhere(step stream.Step) {
	self := r.env.Self()
	if s, ok := r.env.Local(); ok && step.FlushTo == self.Address {
		s.Flush(region.Flush{Sender: self, Via: self, Epoch: step.Epoch, Hop: step.Left, To: step.Home})
		return
	}
	if step.FlushTo.IsZero() {
		return
	}
	if p, ok := r.env.Known(step.FlushTo); ok {
		p.Lock()
		_, err := p.AppendLocked(r.flush(step))
		p.Unlock()
		if err == nil {
			p.Flush()
		}
	}
}

// flush returns a Flush, which says that no older call of this process will come.
func (r *Route) flush(step stream.Step) *wire.Envelope {
	return &wire.Envelope{
		Type: wire.TypeFlush, Kind: r.kind, Shard: r.shard,
		Epoch: uint64(step.Epoch), Hop: uint64(step.Left), Node: transport.Peer{Address: step.Home},
	}
}

// goTo sends held calls to the new home, and makes the home the target of new calls.
func (r *Route) goTo(step stream.Step) {
	home, epoch := r.Core.Home, r.Core.Epoch
	r.env.Released(step.Deliver)
	if home == r.env.Self().Address {
		r.goLocal(step)
		return
	}
	p, ok := r.env.Session(home)
	if ok {
		p.Lock()
		if p.DepartedLocked() {
			p.Unlock()
			ok = false
		}
	}
	if !ok { // the home has left: wait for the next home
		r.Core.HomeDeparted(home, step.Deliver)
		r.env.Taken(step.Deliver)
		r.env.Ask()
		return
	}
	for _, via := range step.Via {
		seq, err := p.AppendLocked(&wire.Envelope{
			Type: wire.TypeBarrier, Kind: r.kind, Shard: r.shard, Epoch: uint64(epoch),
			Via: transport.Peer{Address: via.Address}, Last: via.Departed,
		})
		if err == nil { // a later Flush must be sent after this barrier, even if no call is sent
			r.Core.LastSeq = seq
		}
	}
	for i := range step.Deliver {
		r.deliverLocked(p, &step.Deliver[i].Envelope)
	}
	r.enter(&Target{Session: p, Epoch: epoch})
	p.Unlock()
	p.Flush()
}

// deliverLocked appends a held call. The caller has the session's lock.
func (r *Route) deliverLocked(p Session, e *wire.Envelope) {
	if r.expired(e) {
		return
	}
	e.Epoch = uint64(r.Core.Epoch)
	seq, err := p.AppendLocked(e)
	if err != nil {
		r.env.Unsent(e, err)
		return
	}
	r.Core.LastSeq = seq
	r.env.Sent(e.ID, p, seq)
}

func (r *Route) goLocal(step stream.Step) {
	s, ok := r.env.Local()
	if !ok { // the table is wrong about this process: wait for another table
		r.Core.HomeDeparted(r.env.Self().Address, step.Deliver)
		r.env.Taken(step.Deliver)
		return
	}
	for _, via := range step.Via {
		s.CloseBarrier(r.env.Self().Address, via.Address, r.Core.Epoch, via.Departed)
	}
	for i := range step.Deliver {
		e := step.Deliver[i].Envelope
		if r.expired(&e) {
			continue
		}
		e.Epoch = uint64(r.Core.Epoch)
		r.env.Sent(e.ID, nil, 0)
		s.Enqueue(&e)
	}
	r.enter(&Target{Local: s, Epoch: r.Core.Epoch})
	s.Direct(true)
}

// expired reports whether no caller waits for the call any more, and counts such a call.
func (r *Route) expired(e *wire.Envelope) bool {
	if e.ID == 0 || r.env.Waits(e.ID) {
		return false
	}
	r.env.Expired()
	return true
}

func (r *Route) enter(t *Target) {
	r.left = time.Time{}
	r.target.Store(t)
}

func (r *Route) leaveTarget() {
	t := r.target.Load()
	if t == nil {
		return
	}
	if t.Local != nil {
		t.Local.Direct(false)
	}
	r.left = r.env.Now()
	r.target.Store(nil)
}
