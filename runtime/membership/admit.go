package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/transport"
)

// patientAttempt is the hello from which every member answers: the few that
// should have done so did not. A cluster that has lost all its seeds thus still
// takes in the seeds that are started again, in place of a second cluster.
const patientAttempt = 4

// fewAnswer is how many members answer the first hellos.
const fewAnswer = 5

// onHello: a joiner looks for members.
func (m *Machine) onHello(from transport.Address, msg Hello) {
	if m.phase == searching || m.phase == asking {
		m.onHelloAsJoiner(from, msg)
		return
	}
	if m.phase != member || from == m.config.Self {
		return
	}
	if status := m.self().Status; status != Joining && status != WeaklyUp && status != Up {
		return
	}
	if m.headless() {
		return // or joiners would keep a cluster alive that has died
	}
	if msg.Attempt < patientAttempt && !m.answersFirst(from, msg.Seeds) {
		return
	}
	m.send(from, HelloAck{Target: from})
}

// headless tells whether there were full members and none can be reached: this
// node, that never was one, will stop, or become one without them.
func (m *Machine) headless() bool {
	if m.gossip.UpCounter == 0 {
		return false
	}
	for _, r := range m.gossip.Members {
		if (r.Status == Up || r.Status == Leaving) && (r.Address == m.config.Self || m.evidence(r.Address) == NoEvidence) {
			return false
		}
	}
	return true
}

// answersFirst tells whether this node is one of the joiner's seeds, or where it
// names none one of the few members after it on the ring.
func (m *Machine) answersFirst(joiner transport.Address, seeds []string) bool {
	if len(seeds) > 0 {
		return slices.Contains(seeds, m.config.Self.Name)
	}
	if len(m.gossip.Members) <= fewAnswer {
		return true
	}
	return slices.Contains(ringAfter(joiner, m.gossip.Members, fewAnswer), m.config.Self)
}

// onJoin admits a node, or says why not.
func (m *Machine) onJoin(from transport.Address, msg Join) {
	if msg.Target != m.config.Self {
		m.refuse(RefusedTarget)
		return
	}
	if _, ok := m.gossip.member(from); ok {
		m.send(from, Welcome{Target: from, State: m.gossip}) // the first Welcome was lost
		return
	}
	if reason := m.incompatible(from, msg); reason != "" {
		m.send(from, JoinRefused{Target: from, Final: true, Reason: reason})
		return
	}
	if status := m.self().Status; status == Exiting {
		m.send(from, JoinRefused{Target: from, Reason: m.config.Self.String() + " is leaving"})
		return
	}
	if old, ok := m.sameName(from); ok {
		m.replace(old)
		m.send(from, JoinRefused{Target: from, Reason: fmt.Sprintf(
			"the name is held by %v, which is %v (stop that one, or give this one another name)", old.Address, old.Status)})
		return
	}
	joiner := Member{Address: from, Status: Joining, Roles: msg.Roles, Meta: msg.Meta}
	if m.room() <= 0 && m.config.votes(joiner) {
		m.send(from, JoinRefused{Target: from, Reason: fmt.Sprintf(
			"there are as many members as a static quorum of %d allows (raise it at all members, or let one leave)", m.config.QuorumSize)})
		return
	}
	m.update(func(g *Gossip) { g.setMember(joiner) })
	m.send(from, Welcome{Target: from, State: m.gossip})
}

// incompatible compares what both know, and names the first difference.
func (m *Machine) incompatible(from transport.Address, msg Join) string {
	if transport.CheckName("node", from.Name) != nil || !sortedKeys(msg.Meta) || !sortedKeys(msg.Compat) ||
		!slices.IsSorted(msg.Roles) || len(msg.Roles) > maxRoles || len(msg.Meta) > maxKeyValues || len(msg.Compat) > maxKeyValues {
		return "its description is malformed"
	}
	for _, theirs := range msg.Compat {
		i, ok := slices.BinarySearchFunc(m.config.Compat, theirs.Key, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
		if ok && m.config.Compat[i].Value != theirs.Value {
			return fmt.Sprintf("%s is %q here and %q in the cluster (make them equal, or stop all members first)",
				theirs.Key, theirs.Value, m.config.Compat[i].Value)
		}
	}
	return m.mismatch(msg.Meta)
}

// mismatch compares what a joiner tells of itself with what members do, where
// that must be equal.
func (m *Machine) mismatch(meta []KeyValue) string {
	if m.config.MatchMeta == "" {
		return ""
	}
	for _, theirs := range meta {
		if !strings.HasPrefix(theirs.Key, m.config.MatchMeta) {
			continue
		}
		for _, r := range m.gossip.Members {
			i, ok := slices.BinarySearchFunc(r.Meta, theirs.Key, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
			if ok && r.Status != Down && r.Meta[i].Value != theirs.Value {
				return fmt.Sprintf("%s is %q here and %q at %s (make them equal, or stop all members first)",
					theirs.Key, theirs.Value, r.Meta[i].Value, r.Name)
			}
		}
	}
	return ""
}

func sortedKeys(list []KeyValue) bool {
	for i := 1; i < len(list); i++ {
		if list[i].Key <= list[i-1].Key {
			return false
		}
	}
	return true
}

// sameName finds the member that holds the joiner's name.
func (m *Machine) sameName(joiner transport.Address) (Member, bool) {
	for _, r := range m.gossip.Members {
		if r.Name == joiner.Name && r.Address != joiner {
			return r, true
		}
	}
	return Member{}, false
}

// replace makes way for a node that was started again under its old name. The
// old incarnation goes at once if it is known to be gone; otherwise it is looked
// at now, and the joiner asks again.
func (m *Machine) replace(old Member) {
	if old.Address == m.config.Self || old.Status == Down || old.Status == Exiting {
		return // it is alive, or the leader is about to remove it
	}
	if m.evidence(old.Address) == EvidenceGone {
		m.downMembers([]Member{old}, sentence{})
		return
	}
	m.suspect(old.Address)
}
