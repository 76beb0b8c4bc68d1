package singleton

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// onView takes the new view in: who the oldest is, and which older members may
// still run the instance.
func (m *Manager) onView(v View) {
	m.seen = true
	m.view = make(map[transport.Address]Member, len(v.Members))
	m.oldest = transport.Address{}
	var first Member
	for _, o := range v.Members {
		m.view[o.Address] = o
		if !o.candidate(m.config.Role) {
			continue
		}
		if m.oldest.IsZero() || o.olderThan(first) {
			m.oldest, first = o.Address, o
		}
	}
	m.trackOlder(v)
}

// candidate tells whether the instance may run on the member. One that leaves
// before it was ever Up has no age.
func (o Member) candidate(role string) bool {
	return (o.Status == Up || o.Status == Leaving && o.UpNumber > 0) && o.has(role)
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

// leaving tells whether this node may not run the instance any longer, and gone
// whether it is no member any more, so that nobody will ask for it.
func (m *Manager) leaving() (leaving, gone bool) {
	self, ok := m.view[m.config.Self]
	if !ok || self.Status == Down {
		return true, true
	}
	return self.Status == Exiting, false
}

// advance makes the changes of state that views and time bring. It looks at the
// last view only, and leaves a state that waits for something alone: so there is
// one change of the oldest at a time.
func (m *Manager) advance() {
	if !m.seen {
		return
	}
	m.prune()
	leaving, gone := m.leaving()
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
			m.start("took over")
		}
	case Oldest:
		m.advanceOldest(leaving, gone)
	case WasOldest:
		if gone || m.oldest.IsZero() {
			m.stop(transport.Address{}, "nobody to hand over to")
		}
	case HandingOver, End:
	}
}

func (m *Manager) advanceOldest(leaving, gone bool) {
	switch {
	case leaving && !m.running:
		m.become(End, transport.Address{}, "leaves between two instances")
		m.restart = time.Time{}
	case leaving && (gone || m.oldest.IsZero()):
		m.stop(transport.Address{}, "nobody to hand over to")
	case leaving:
		m.become(WasOldest, m.oldest, "leaves")
	case !m.running && !m.now.Before(m.restart):
		m.launch()
		m.event(transport.Address{}, "starts the instance again")
	}
}

func (m *Manager) becomeOldest() {
	if len(m.order) == 0 {
		m.start("no older member is left")
		return
	}
	m.become(BecomingOldest, m.order[0], "older members are left")
}

// start begins to run the instance for the first time.
func (m *Manager) start(why string) {
	m.become(Oldest, transport.Address{}, why)
	m.launch()
}

func (m *Manager) launch() {
	m.out.StartInstance, m.running = true, true
	m.started = m.now
	m.restart = time.Time{}
}

// stop begins to hand over to the asker, or to nobody.
func (m *Manager) stop(asker transport.Address, why string) {
	m.become(HandingOver, asker, why)
	m.out.StopInstance = true
}

// onStopped tells those who asked, or plans a restart: an instance that ends by
// itself must not leave the cluster without one.
func (m *Manager) onStopped() {
	if !m.running {
		return
	}
	m.running = false
	switch m.state {
	case HandingOver:
		for _, a := range m.askers {
			m.send(a, HandOverDone)
		}
		m.become(End, transport.Address{}, "the instance has stopped")
	case WasOldest:
		m.become(End, transport.Address{}, "the instance stopped by itself")
	case Oldest:
		if m.now.Sub(m.started) >= m.config.StableAfter {
			m.backoff = m.config.RestartBackoff
		}
		m.restart = m.now.Add(m.backoff)
		m.backoff = min(2*m.backoff, m.config.MaxRestartBackoff)
		m.event(transport.Address{}, "the instance stopped by itself")
	case Start, Younger, BecomingOldest, End: // nothing ran
	}
}

func (m *Manager) onMessage(from transport.Address, t MessageType) {
	switch t {
	case HandOverToMe:
		m.onHandOverToMe(from)
	case HandOverInProgress:
		if m.state == BecomingOldest && m.older[from] != nil {
			m.event(from, "is stopping its instance")
		}
	case HandOverDone:
		if m.state == BecomingOldest && m.older[from] != nil {
			delete(m.older, from)
			m.order = slices.DeleteFunc(m.order, func(a transport.Address) bool { return a == from })
			if _, ok := m.view[from]; ok {
				m.confirms[from] = true
			}
			m.event(from, "has stopped its instance")
		}
	case TakeOverFromMe:
		// Before this node knows itself to be the oldest it does nothing: its view
		// will tell, and the sender repeats itself.
		if m.state == BecomingOldest || m.state == Oldest {
			m.send(from, HandOverToMe)
		}
	}
}

// onHandOverToMe obeys in every state. The sender saw this node Exiting or Down,
// of which there is no way back; this node may only not know yet. So whatever it
// answers HandOverDone to, it never starts an instance again.
func (m *Manager) onHandOverToMe(from transport.Address) {
	switch m.state {
	case Start, Younger, BecomingOldest:
		m.become(End, from, "a younger member takes over")
		m.send(from, HandOverDone)
	case End:
		m.send(from, HandOverDone)
	case Oldest, WasOldest, HandingOver:
		if !m.running {
			m.become(End, from, "a younger member takes over")
			m.send(from, HandOverDone)
			return
		}
		if !slices.Contains(m.askers, from) {
			m.askers = append(m.askers, from)
		}
		m.send(from, HandOverInProgress)
		if m.state != HandingOver {
			m.stop(from, "asked to hand over")
		}
	}
}

// retry sends what has not been answered, when it is due.
func (m *Manager) retry() {
	if m.now.Before(m.retryAt) {
		return
	}
	switch m.state {
	case BecomingOldest:
		for _, a := range m.order {
			if m.older[a].removed.IsZero() {
				m.send(a, HandOverToMe)
			}
		}
	case WasOldest:
		m.send(m.oldest, TakeOverFromMe)
	case Start, Younger, Oldest, HandingOver, End:
		return
	}
	m.retryAt = m.now.Add(m.config.RetryInterval)
}
