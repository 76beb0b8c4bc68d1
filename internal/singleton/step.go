package singleton

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// onView takes the new view in: who the oldest is, and which older members may
// still run the instance.
func (m *Manager) onView(v View) {
	m.seen = true
	m.view = make(map[transport.Address]Member, len(v.Members))
	for _, o := range v.Members {
		m.view[o.Address] = o
	}
	m.oldest = v.oldest(m.config.Role, m.config.HandOverAt)
	m.trackOlder(v)
}

// candidate reports whether the instance may run on the member. One that leaves
// before it was ever Up has no age.
func (o Member) candidate(role string, handOverAt Status) bool {
	stays := o.Status == Up || o.Status == Leaving && handOverAt == Exiting
	return stays && o.UpNumber > 0 && o.has(role)
}

func (o Member) has(role string) bool { return role == "" || slices.Contains(o.Roles, role) }

// olderThan orders members by age, then address.
func (o Member) olderThan(p Member) bool {
	if o.UpNumber != p.UpNumber {
		return o.UpNumber < p.UpNumber
	}
	return o.Address.Compare(p.Address) < 0
}

// trackOlder notes who is older, whatever its status: the instance may run on
// any of them, for each was the oldest once or may have been. Only a removal or
// its own word takes a member off.
func (m *Manager) trackOlder(v View) {
	self, ok := m.view[m.config.Self]
	if ok && self.Status >= Up {
		for _, o := range v.Members {
			if o.Status >= Up && o.UpNumber > 0 && o.has(m.config.Role) && o.olderThan(self) && !m.confirms[o.Address] && m.older[o.Address] == nil {
				m.older[o.Address] = &older{}
				i, _ := slices.BinarySearchFunc(m.order, o.Address, transport.Address.Compare)
				m.order = slices.Insert(m.order, i, o.Address)
			}
		}
	}
	for _, a := range m.order {
		if _, ok := m.view[a]; !ok && m.older[a].removed.IsZero() {
			m.older[a].removed = m.now
		}
	}
	//arch:order-free every one is looked at
	for a := range m.confirms {
		if _, ok := m.view[a]; !ok {
			delete(m.confirms, a)
		}
	}
}

// prune drops older members whose removal lies RemovalMargin back.
func (m *Manager) prune() {
	m.order = slices.DeleteFunc(m.order, func(a transport.Address) bool {
		o := m.older[a]
		past := !o.removed.IsZero() && !m.now.Before(o.removed.Add(m.config.RemovalMargin))
		if past {
			delete(m.older, a)
		}
		return past
	})
}

// leaving reports whether this node must give the instance away, gone whether it
// is no member any more, so that nobody will ask for it, and last whether it
// must stop the instance even if nobody can take it.
func (m *Manager) leaving() (leaving, gone, last bool) {
	self, ok := m.view[m.config.Self]
	if !ok || self.Status == Down {
		return true, true, true
	}
	return self.Status >= m.config.HandOverAt, false, self.Status == Exiting || m.quit
}

// advance makes the changes of state that views and time bring. It looks at the
// last view only, and leaves a state that waits for something alone: so there is
// one change of the oldest at a time.
func (m *Manager) advance() {
	if !m.seen {
		return
	}
	m.prune()
	leaving, gone, last := m.leaving()
	switch m.state {
	case Start:
		self, ok := m.view[m.config.Self]
		switch {
		case !ok || self.Status < Up: // not yet a member
		case leaving:
			m.become(End, transport.Address{}, "leaves before it was up")
		case m.oldest == m.config.Self:
			m.becomeOldest()
		default:
			m.become(Younger, m.oldest, "another member is the oldest")
		}
	case Younger:
		if leaving {
			m.become(End, transport.Address{}, "leaves")
		} else if m.oldest == m.config.Self {
			m.becomeOldest()
		}
	case BecomingOldest:
		if leaving {
			m.become(End, transport.Address{}, "leaves before it took over")
		} else if len(m.order) == 0 {
			m.proceed("took over")
		}
	case AcquiringLease:
		if leaving {
			m.become(End, transport.Address{}, "leaves before it got the lease")
		} else if m.lease.held {
			m.start("got the lease")
		}
	case Oldest:
		m.advanceOldest(leaving, gone, last)
	case LosingLease:
		if leaving {
			m.become(HandingOver, m.oldest, "leaves")
		}
	case WasOldest:
		if gone || last && m.oldest.IsZero() {
			m.stop(transport.Address{}, "nobody to hand over to")
		}
	case HandingOver, End:
	}
}

func (m *Manager) advanceOldest(leaving, gone, last bool) {
	switch {
	case leaving && (gone || last && m.oldest.IsZero()):
		m.stop(transport.Address{}, "nobody to hand over to")
	case leaving && m.oldest.IsZero(): // somebody may come yet
	case leaving && !m.running:
		m.stop(m.oldest, "leaves between two instances")
	case leaving:
		m.become(WasOldest, m.oldest, "leaves")
	}
	if m.state == Oldest && !m.running && !m.now.Before(m.restart) {
		m.launch()
		m.event(transport.Address{}, "starts the instance again")
	}
}

func (m *Manager) becomeOldest() {
	if len(m.order) == 0 {
		m.proceed("no older member is left")
		return
	}
	m.become(BecomingOldest, m.order[0], "older members are left")
}

// proceed starts the instance, or first gets the lease for it.
func (m *Manager) proceed(why string) {
	if !m.config.Lease {
		m.start(why)
		return
	}
	m.become(AcquiringLease, m.config.Self, why)
	m.lease.askAt, m.why = m.now, "it asks for it"
}

// start begins to run the instance for the first time, or anew after the lease
// was lost.
func (m *Manager) start(why string) {
	m.become(Oldest, transport.Address{}, why)
	m.launch()
}

func (m *Manager) launch() {
	m.starts++
	m.out.StartInstance, m.running = true, true
	m.out.Epoch = placement.MakeEpoch(uint32(m.view[m.config.Self].UpNumber), m.starts)
	m.out.Predecessor, m.from = m.from, transport.Address{}
	m.started = m.now
	m.restart = time.Time{}
}

// stop begins to hand over to a member, or to nobody.
func (m *Manager) stop(to transport.Address, why string) {
	m.restart = time.Time{}
	m.become(HandingOver, to, why)
	m.halt(to)
}

// halt has the instance stopped. Also one that pauses: calls wait for it.
func (m *Manager) halt(to transport.Address) {
	m.stopping = true
	m.out.StopInstance = true
	if o := m.view[to]; to != m.config.Self && o.UpNumber > 0 {
		m.out.Successor, m.givenTo = to, transport.Address{}
		m.out.Epoch = placement.MakeEpoch(uint32(o.UpNumber), 1)
	}
	m.successor = m.out.Successor
}

// onStopped tells those who asked, or plans a restart: an instance that ends by
// itself must not leave the cluster without one.
func (m *Manager) onStopped(in InstanceStopped) {
	if m.stopping {
		m.running, m.stopping = false, false
		if in.Handed {
			m.givenTo = m.successor
		}
		switch {
		case m.state == LosingLease:
			m.become(AcquiringLease, m.config.Self, "the instance has stopped")
			m.lease.askAt, m.why = m.now, "it was lost"
		case !m.releaseLease():
			m.finish()
		}
		return
	}
	if !m.running {
		return
	}
	m.running, m.why = false, in.Reason
	if m.state == WasOldest {
		m.stop(m.oldest, "the instance stopped by itself")
		return
	}
	if m.now.Sub(m.started) >= m.config.StableAfter {
		m.backoff = m.config.RestartBackoff
	}
	m.restart = m.now.Add(m.backoff)
	m.backoff = min(2*m.backoff, m.config.MaxRestartBackoff)
	m.event(transport.Address{}, "the instance stopped by itself")
}

// finish gives its word that nothing runs here and never will.
func (m *Manager) finish() {
	for _, a := range m.askers {
		m.send(a, HandOverDone)
	}
	m.become(End, transport.Address{}, "the instance has stopped")
}

func (m *Manager) onMessage(from transport.Address, msg Message) {
	switch msg.Type {
	case HandOverToMe:
		m.onHandOverToMe(from)
	case HandOverInProgress:
		if m.state == BecomingOldest && m.older[from] != nil {
			m.retries = 0 // it is at work
			m.event(from, "is stopping its instance")
		}
	case HandOverDone:
		if m.state == BecomingOldest && m.older[from] != nil {
			delete(m.older, from)
			m.order = slices.DeleteFunc(m.order, func(a transport.Address) bool { return a == from })
			if _, ok := m.view[from]; ok {
				m.confirms[from] = true
			}
			if msg.Handed {
				m.from = from
			}
			m.event(from, "has stopped its instance")
		}
	case TakeOverFromMe:
		// Before this node knows itself to be the oldest it does nothing: its view
		// will tell, and the sender repeats itself.
		if m.state == BecomingOldest || m.state == AcquiringLease || m.state == Oldest {
			m.send(from, HandOverToMe)
		}
	case Identify, Identity: // a proxy's
	}
}

// onHandOverToMe obeys in every state. The sender saw this node leave or Down,
// of which there is no way back; this node may only not know yet. So whatever it
// answers HandOverDone to, it never starts an instance again. But it does not obey
// one that it sees as Down, or does not know: that may be of another half of a
// cluster that fell apart, where this node counts for nothing, while here it stays.
func (m *Manager) onHandOverToMe(from transport.Address) {
	if o, known := m.view[from]; m.state != End && (!known || o.Status == Down) {
		return
	}
	if !m.Holds() {
		if m.state != End {
			m.become(End, from, "a younger member takes over")
		}
		m.send(from, HandOverDone)
		return
	}
	if !slices.Contains(m.askers, from) {
		m.askers = append(m.askers, from)
	}
	m.send(from, HandOverInProgress)
	switch m.state {
	case Oldest, WasOldest:
		m.stop(from, "asked to hand over")
	case LosingLease:
		m.become(HandingOver, from, "asked to hand over")
	}
}

// retry sends unanswered messages again, when they are due.
func (m *Manager) retry() {
	if m.now.Before(m.retryAt) {
		return
	}
	switch m.state {
	case BecomingOldest:
		for _, a := range m.order {
			if m.older[a].removed.IsZero() {
				m.send(a, HandOverToMe)
				m.count(a)
			}
		}
	case WasOldest:
		if !m.oldest.IsZero() {
			m.send(m.oldest, TakeOverFromMe)
			m.count(m.oldest)
		}
	default:
		return
	}
	m.retryAt = m.now.Add(m.config.RetryInterval)
}

// count reports once that a member has not answered for long.
func (m *Manager) count(peer transport.Address) {
	m.retries++
	if m.retries == m.config.MaxRetries+1 {
		m.out.Events = append(m.out.Events, Event{
			State: m.state, Peer: peer, Stuck: true,
			What: fmt.Sprintf("no answer to %d messages (it hangs, or a turn does not end? it is waited for until it answers or is removed)", m.retries),
		})
	}
}
