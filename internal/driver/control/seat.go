package control

import (
	"fmt"
	"maps"
	"time"

	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

const coordinatorSingleton = "coordinator"

// A seat manages the coordinator at this member. The manager of the coordinator's singleton decides
// whether the coordinator runs here.
type seat struct {
	m          *Member
	manager    *singleton.Manager
	managerAt  time.Time
	core       *coordinator.Coordinator // nil if the coordinator does not run here
	coreAt     time.Time
	term       uint32    // the term of core
	termAt     time.Time // when term is next compared with the store's last term; zero means never
	behind     int       // how many times in a row the store's term was higher
	starts     int       // number of starts and stops of the coordinator
	begun      bool      // the manager knows that the coordinator has started
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

// The last term in the store is read every termEvery. If it exceeds the coordinator's term
// termTries times in a row, but no successor has appeared, the store had lost its record when the
// coordinator took its term.
const (
	termEvery = 2 * time.Second
	termTries = 3
)

// compareTerm restarts the coordinator under a higher term if its term stays below the last term in
// the store. Otherwise no home could open a shard that had a home under a later term.
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
				s.m.env.Log(Warn, "the store has a later term than the coordinator: the coordinator starts again with a higher term", "term", s.term, "later", last)
				s.stop()
				s.start()
			}
		}
	})
}

func (s *seat) stop() {
	s.starts++
	s.core, s.coreAt, s.termAt, s.behind = nil, time.Time{}, time.Time{}, 0
	s.m.pools.Store(nil)
}

func (s *seat) managed(v *membership.View) {
	var view singleton.View
	for _, m := range v.ByAge {
		view.Members = append(view.Members, singleton.Member{
			Address: m.Address, Status: m.Status, UpNumber: m.UpNumber, Roles: m.Roles,
		})
	}
	s.stepManager(view)
}

func (s *seat) placed(v *membership.View) {
	if s.core != nil {
		s.step(placementView(v))
	}
}

func placementView(v *membership.View) coordinator.View {
	view := coordinator.View{Converged: v.Converged}
	for _, m := range v.ByAge {
		status, unreachable := m.Status, !m.Reachable
		if m.Status == membership.Down && m.MayRun() {
			status, unreachable = membership.Up, true // the member keeps its shards until its lease ends
		}
		view.Members = append(view.Members, coordinator.Member{
			Address: m.Address, Status: status, Unreachable: unreachable, Hosts: hostmeta.HostsAny(m.Member),
		})
	}
	return view
}

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

// begin starts the coordinator under the given term. before is the term that the store recorded
// until then. If this process has followed only lower terms than that, another cluster may have
// used the recorded term. The coordinator then starts with Config.Anew.
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

func (s *seat) step(in coordinator.Input) {
	out := s.core.Step(s.m.env.Now(), in)
	s.coreAt = out.WakeAt
	if wanted := s.core.Wanted(); !maps.Equal(wanted, s.m.Pools()) {
		s.m.pools.Store(&wanted)
	}
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

// lookForOwing quarantines members that have owed the coordinator an answer for QuarantineAfter. It
// counts only the time in which this process could have received the answer.
func (s *seat) lookForOwing() {
	var owing []transport.Address
	if s.core != nil && s.m.env.LeaseValid() {
		owing = s.core.Owing()
	}
	for _, node := range s.quarantine.look(owing, s.m.cfg.QuarantineAfter, s.m.env.Now()) {
		s.m.env.Log(Error, "member quarantined: it answers heartbeats but has not answered the coordinator",
			"member", node.String(), "after", s.m.cfg.QuarantineAfter)
		s.m.env.Post(func() { s.m.members.step(membership.Undeliverable{Peer: node}) })
	}
}

// A quarantine records the members that owe the coordinator an answer.
type quarantine struct {
	since map[transport.Address]time.Time // when each member was first found to owe an answer
}

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
