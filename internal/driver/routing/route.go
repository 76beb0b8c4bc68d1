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

// A Target is where a route's calls go. It never changes, only the route's pointer to it.
type Target struct {
	Local   Local   // this process; else nil
	Session Session // or another one; else nil
	Epoch   placement.Epoch
}

// A Route drives one stream.Route. It is safe for concurrent use. Core.LastSeq belongs to the
// lock of the session that the target names, and everything else of Core to Mu.
type Route struct {
	Mu   sync.Mutex
	Core stream.Route

	env    Env
	kind   []byte
	shard  uint32
	target atomic.Pointer[Target] // nil: calls are held
	most   int                    // calls that are held; 0: Env alone bounds them
	left   time.Time              // when the last target was left; zero means there is one, or never was
}

// Init makes the route of a shard, to nowhere. It is called once, before anything else.
func (r *Route) Init(env Env, kind []byte, shard uint32) { r.env, r.kind, r.shard = env, kind, shard }

// HoldAtMost has the route hold n calls at most, 0 or more, and give up the oldest ones for
// younger ones. It is called before the route is used.
func (r *Route) HoldAtMost(n int) { r.most = n + 1 }

// Shard returns the shard that the route leads to.
func (r *Route) Shard() placement.ShardID {
	return placement.ShardID{Kind: string(r.kind), Shard: r.shard}
}

// Kind returns the name of the shard's type. It must not be changed.
func (r *Route) Kind() []byte { return r.kind }

// Target is where calls go at the moment; nil means they are held. A sender must hold the lock
// of the target, and check again under it.
func (r *Route) Target() *Target { return r.target.Load() }

// Send brings an ask or a tell to where the route leads, or holds it until that is known. An
// error means that it will never be sent. by must not keep the envelope.
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

// hold keeps a call until a home is known. It reports false when one is.
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

// keep copies slices that belong to the caller. Entity and Method share memory with
// strings, which do not change.
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

// Drop drops the held calls that match, and returns their number.
func (r *Route) Drop(match func(stream.Outgoing) bool) int {
	r.Mu.Lock()
	out := r.Core.Drop(match)
	r.Mu.Unlock()
	r.env.Released(out)
	return len(out)
}

// Home is the home of the shard as far as the route knows; zero means none.
func (r *Route) Home() transport.Address {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Core.Home
}

// LeadsTo reports whether a is the shard's home, as the route knows it.
func (r *Route) LeadsTo(a transport.Address) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Core.Home == a
}

// LeftLocked is when the home that calls went to was left; zero means they go to a home, or never
// went to one. Mu is held.
func (r *Route) LeftLocked() time.Time { return r.left }

// Learn takes a placement. One that is not newer than the known one is taken only by force.
// A placement from a table is never taken by force: the table of a later term may have been
// written while a move was under way, and then shows the home before. If the known home does not have the shard, it
// refuses the calls, which leads to the right one.
func (r *Route) Learn(home transport.Address, epoch placement.Epoch, force bool) {
	r.Change(func(acked uint64) stream.Step { return r.learnLocked(home, epoch, acked, force) })
}

// Found goes to where a singleton's instance was found. It may be under a lower epoch than
// one that has departed, because the cluster may have been founded anew.
func (r *Route) Found(home transport.Address, epoch placement.Epoch) {
	r.Change(func(acked uint64) stream.Step {
		return r.learnLocked(home, epoch, acked, r.Core.State == stream.Unknown)
	})
}

func (r *Route) learnLocked(home transport.Address, epoch placement.Epoch, acked uint64, force bool) stream.Step {
	local := r.Core.Home == r.env.Self().Address
	if force && epoch <= r.Core.Epoch {
		return r.Core.Supersede(home, epoch, acked, local)
	}
	return r.Core.Learn(home, epoch, acked, local)
}

// Refused takes back an envelope that its home refused. The refusal names another placement.
func (r *Route) Refused(by transport.Address, e wire.Envelope, home transport.Address, epoch placement.Epoch) {
	out := []stream.Outgoing{{Envelope: e}}
	r.env.Taken(out)
	r.env.Sent(e.ID, nil, 0)
	r.Change(func(acked uint64) stream.Step {
		r.Core.Refused(by, out[0], home, epoch)
		return r.Core.Acked(by, acked)
	})
}

// Acked takes the acknowledgement of the old home.
func (r *Route) Acked(by transport.Address, seq uint64) {
	r.Change(func(uint64) stream.Step { return r.Core.Acked(by, seq) })
}

// HomeDeparted notes that a process has departed. left are the calls that it certainly did not execute.
func (r *Route) HomeDeparted(a transport.Address, left []stream.Outgoing) {
	r.env.Taken(left)
	r.Change(func(uint64) stream.Step { return r.Core.HomeDeparted(a, left) })
}

// BeginAnew forgets every placement. Waiting calls go on waiting.
func (r *Route) BeginAnew() {
	r.Change(func(uint64) stream.Step { return r.Core.BeginAnew() })
}

// Change applies f to Core and executes the resulting step, before any other call for the
// shard passes. acked is the highest sequence that the present home has acknowledged.
func (r *Route) Change(f func(acked uint64) stream.Step) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	was, leads := r.homeSession()
	var acked uint64
	if leads {
		was.Lock()
		if acked = was.AckedLocked(); was.DepartedLocked() {
			acked = ^uint64(0) // envelopes that the peer never handled were taken back when it left
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

// homeSession is the session with the home that Core knows. It reports false for this process.
func (r *Route) homeSession() (Session, bool) {
	if t := r.target.Load(); t != nil {
		return t.Session, t.Session != nil
	}
	if r.Core.Home.IsZero() || r.Core.Home == r.env.Self().Address {
		return nil, false
	}
	return r.env.Known(r.Core.Home)
}

// leaveLocked sends the Flush that a step asks for, if it is for the old home, and has the
// old home's session report its acknowledgements while the route waits for them. The
// session's lock is held.
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

// flushElsewhere sends the Flush of a step to another process than the home that the route leaves:
// the shard is here, or the home between has departed or was never reached.
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

// flush says to a home that nothing older of this process follows.
func (r *Route) flush(step stream.Step) *wire.Envelope {
	return &wire.Envelope{
		Type: wire.TypeFlush, Kind: r.kind, Shard: r.shard,
		Epoch: uint64(step.Epoch), Hop: uint64(step.Left), Node: transport.Peer{Address: step.Home},
	}
}

// goTo delivers waiting calls to the new home and lets calls pass again.
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
	if !ok { // it has left: wait for the next one
		r.Core.HomeDeparted(home, step.Deliver)
		r.env.Taken(step.Deliver)
		r.env.Ask()
		return
	}
	for _, via := range step.Via {
		seq, err := p.AppendLocked(&wire.Envelope{
			Type: wire.TypeBarrier, Kind: r.kind, Shard: r.shard, Epoch: uint64(epoch), Via: transport.Peer{Address: via},
		})
		if err == nil { // a sender that arrives here needs a Flush to leave again, calls or not
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

// deliverLocked appends a call that waited. The session's lock is held.
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

// goLocal is goTo for this process itself.
func (r *Route) goLocal(step stream.Step) {
	s, ok := r.env.Local()
	if !ok { // the table is wrong about this process: wait for another one
		r.Core.HomeDeparted(r.env.Self().Address, step.Deliver)
		r.env.Taken(step.Deliver)
		return
	}
	for _, via := range step.Via {
		s.CloseBarrier(r.env.Self().Address, via, r.Core.Epoch)
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

// expired reports whether nobody waits for the call any more.
func (r *Route) expired(e *wire.Envelope) bool {
	if e.ID == 0 || r.env.Waits(e.ID) {
		return false
	}
	r.env.Expired()
	return true
}

// enter lets calls go to t from now on.
func (r *Route) enter(t *Target) {
	r.left = time.Time{}
	r.target.Store(t)
}

// leaveTarget holds calls from now on.
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
