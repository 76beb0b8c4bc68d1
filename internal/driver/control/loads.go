package control

import (
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
)

// One in fullEvery load reports has all shards, because a lost report is not sent again.
const fullEvery = 10

// loads records the loads of its shards that this member has last reported to the coordinator.
type loads struct {
	term  placement.Term // of the table at the last report
	round int            // of the reports in this term
	told  map[placement.ShardID]coordinator.LoadLevel
}

// ReportLoad sends this member's load to the coordinator. It is called on the control loop. l has
// all shards that the member holds, in order of type and number. ReportLoad sends nothing before
// this member has its first shard table.
func (m *Member) ReportLoad(l coordinator.MemberLoad) {
	if t := m.follower.table; t != nil {
		for _, r := range m.loads.report(t.Version().Term, l) {
			m.ToCoordinator(r)
		}
	}
}

// report returns the reports to send. Most leave out shards whose levels have not changed.
func (r *loads) report(term placement.Term, l coordinator.MemberLoad) (all []coordinator.MemberLoad) {
	if r.term != term {
		*r = loads{term: term}
	}
	full, told := r.round%fullEvery == 0, map[placement.ShardID]coordinator.LoadLevel{}
	r.round++
	changed := l.Shards[:0:0]
	for _, s := range l.Shards {
		told[s.ShardID] = s.Level
		if was, ok := r.told[s.ShardID]; full || !ok || was != s.Level {
			changed = append(changed, s)
		}
	}
	r.told = told
	for more := true; more; more = len(changed) > 0 {
		n := min(len(changed), coordinator.MaxReportedShards)
		all = append(all, coordinator.MemberLoad{Other: l.Other, Memory: l.Memory, Shards: changed[:n]})
		changed = changed[n:]
	}
	return all
}
