package control

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// coordinatorSingleton names the coordinator among singletons.
const coordinatorSingleton = "coordinator"

// A seat is the place of the coordinator: the manager of its singleton, and the coordinator
// while it is here.
type seat struct {
	m          *Member
	manager    *singleton.Manager
	managerAt  time.Time
	core       *coordinator.Coordinator // nil where it does not run
	coreAt     time.Time
	term       uint32    // of core
	termAt     time.Time // when the store's last term is compared with it next; zero means never
	behind     int       // how often in a row the store's was higher
	starts     int       // counts starts and stops of the coordinator
	begun      bool      // the manager knows that it has started
	quarantine quarantine
}

func (s *seat) tick(now time.Time) {
	if due(s.managerAt, now) {
		s.stepManager(singleton.Tick{})
	}
	if s.core != nil && due(s.coreAt, now) {
		s.step(coordinator.Tick{})
	}
	if s.core != nil && due(s.termAt, now) {
		s.compareTerm(now)
	}
}

// The store's last term is read every termEvery. If it was higher than the coordinator's termTries
// times in a row, it is not the term of a successor, because this process would have heard of that
// one. Then the record of the terms was lost before the coordinator took its own, and homes have
// since met a later term in the store.
const (
	termEvery = 2 * time.Second
	termTries = 3
)

// compareTerm has the coordinator begin anew, above all terms that the store knows, when its term
// is behind them. Under such a term no home can open a shard that had a home under a later one.
func (s *seat) compareTerm(now time.Time) {
	s.termAt = now.Add(termEvery)
	n := s.starts
	s.m.env.LastTerm(func(last uint32) {
		switch {
		case s.starts != n || s.core == nil:
		case last <= s.term:
			s.behind = 0
		default:
			if s.behind++; s.behind >= termTries {
				s.m.env.Log(Warn, "the store has seen a later term than the coordinator's, which begins anew above it", "term", s.term, "later", last)
				s.stop()
				s.start()
			}
		}
	})
}

// stop ends the coordinator here.
func (s *seat) stop() {
	s.starts++
	s.core, s.coreAt, s.termAt, s.behind = nil, time.Time{}, time.Time{}, 0
}

// managed gives the manager the members.
func (s *seat) managed(v *membership.View) {
	var view singleton.View
	for _, m := range v.ByAge {
		view.Members = append(view.Members, singleton.Member{
			Address: m.Address, Status: m.Status, UpNumber: m.UpNumber, Roles: m.Roles,
		})
	}
	s.stepManager(view)
}

// placed gives the coordinator, if it is here, the members.
func (s *seat) placed(v *membership.View) {
	if s.core != nil {
		s.step(placementView(v))
	}
}

// placementView is a view of the members as the coordinator takes it.
func placementView(v *membership.View) coordinator.View {
	view := coordinator.View{Converged: v.Converged}
	for _, m := range v.ByAge {
		status, unreachable := m.Status, !m.Reachable
		if m.Status == membership.Down && m.MayRun() {
			status, unreachable = membership.Up, true // its shards are its own until its lease is over
		}
		view.Members = append(view.Members, coordinator.Member{
			Address: m.Address, Status: status, Unreachable: unreachable, Hosts: hostmeta.HostsAny(m.Member),
		})
	}
	return view
}

// stepManager gives the manager one input and carries out its effects.
func (s *seat) stepManager(in singleton.Input) {
	out := s.manager.Step(s.m.env.Now(), in)
	s.managerAt = out.WakeAt
	for _, e := range out.Send {
		s.m.sendSingleton(transport.Peer{Address: e.To}, e.Message)
	}
	for _, e := range out.Events {
		s.m.env.Log(Debug, "coordinator singleton", "state", e.State.String(), "peer", e.Peer.String(), "what", e.What)
	}
	if out.StartInstance {
		s.start()
	}
	if out.StopInstance {
		s.stop()
		s.begun = false
		s.stepManager(singleton.InstanceStopped{})
	}
}

// start starts the coordinator here when it has its term, unless it was stopped or started
// again meanwhile.
func (s *seat) start() {
	s.starts++
	n := s.starts
	me, _ := s.m.View().Member(s.m.self.Address)
	s.m.env.TakeTerm(me.UpNumber, func(term, before uint32) {
		if s.starts == n {
			s.begin(term, before)
		}
	})
}

// begin starts the coordinator here under a term. Before is the one before it in the store. If
// this process has not heard of that one, another cluster may have taken it.
func (s *seat) begin(term, before uint32) {
	cfg := s.m.setup.Coordinator
	cfg.Self = s.m.self.Address
	cfg.Term = placement.Term{Number: term, Incarnation: s.m.self.Incarnation}
	cfg.Anew = before > s.m.follower.core.Term().Number
	core, err := coordinator.New(cfg)
	if err != nil {
		s.m.env.Fail(fmt.Errorf("start the coordinator: %w", err))
		return
	}
	s.m.env.Log(Info, "coordinator starts here", "term", term)
	s.core, s.term, s.termAt = core, term, s.m.env.Now().Add(termEvery)
	if !s.begun {
		s.begun = true
		s.stepManager(singleton.InstanceStarted{})
	}
	s.m.viewChanged()
}

// step gives the coordinator one input and carries out its effects.
func (s *seat) step(in coordinator.Input) {
	out := s.core.Step(s.m.env.Now(), in)
	s.coreAt = out.WakeAt
	for _, e := range out.Events {
		s.m.env.Log(Debug, "coordinator", "event", e.String())
		if told := s.m.setup.Coordinated; told != nil {
			told(e)
		}
	}
	for _, e := range out.Send {
		s.m.SendPlacement(transport.Peer{Address: e.To}, e.Message)
	}
	s.lookForOwing()
	s.m.checkLeaving()
}

// lookForOwing quarantines members that owe the coordinator an answer for too long. Only
// time in which this process itself could hear counts: its turn lease is valid, and the
// member is reachable.
func (s *seat) lookForOwing() {
	var owing []transport.Address
	if s.core != nil && s.m.env.LeaseValid() {
		owing = s.core.Owing()
	}
	for _, node := range s.quarantine.look(owing, s.m.cfg.QuarantineAfter, s.m.env.Now()) {
		s.m.env.Log(Error, "member quarantined: it answers heartbeats, and what it must answer it does not",
			"member", node.String(), "after", s.m.cfg.QuarantineAfter)
		s.m.env.Post(func() { s.m.members.step(membership.Undeliverable{Peer: node}) })
	}
}

// A quarantine notices members that answer heartbeats and owe the coordinator an answer for
// too long, although it is asked for again and again.
type quarantine struct {
	since map[transport.Address]time.Time // when it was first seen that a member owes an answer
}

// look takes the members owing an answer now, and returns those owing one for at least the time
// after.
func (q *quarantine) look(owing []transport.Address, after time.Duration, now time.Time) (late []transport.Address) {
	owed := make(map[transport.Address]time.Time, len(owing))
	for _, node := range owing {
		since, ok := q.since[node]
		if !ok {
			since = now
		}
		owed[node] = since
	}
	q.since = owed
	for _, node := range owing {
		if now.Sub(owed[node]) >= after {
			delete(q.since, node)
			late = append(late, node)
		}
	}
	return late
}
