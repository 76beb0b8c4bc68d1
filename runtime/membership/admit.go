package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// patientAttempt is the hello from which every member answers: the few that
// should have done so did not. A cluster that has lost all its seeds thus still
// takes in the seeds that are started again, in place of a second cluster.
const patientAttempt = 4

// allAnswerAttempt is the one from which all members of a large cluster answer.
const allAnswerAttempt = 16

// fewAnswer is how many members answer the first hellos.
const fewAnswer = 5

// onHello: a joiner looks for members.
func (m *Machine) onHello(from transport.Address, msg message.Hello) {
	if m.phase == searching || m.phase == asking {
		m.onHelloAsJoiner(from, msg)
		return
	}
	if m.phase != member || from == m.config.Self {
		return
	}
	if status := m.self().Status; status != gossip.Joining && status != gossip.WeaklyUp && status != gossip.Up {
		return
	}
	if m.headless() {
		return // or joiners would keep a cluster alive that has died
	}
	if !m.answersFirst(from, msg.Seeds, msg.Attempt) {
		return
	}
	m.send(from, message.HelloAck{Target: message.TargetOf(from)})
}

// headless reports whether there were full members and none can be reached: this
// node, that never was one, will stop, or become one without them.
func (m *Machine) headless() bool {
	if m.state.UpCounter == 0 {
		return false
	}
	f := m.local()
	for i := range m.state.Members {
		if f.Full.Has(i) && (i == f.Self || f.Evidence[i] == gossip.NoEvidence) {
			return false
		}
	}
	return true
}

// answersFirst reports whether it is on this node to answer: it is one of the
// joiner's seeds, or where it names none one of the few members after it on the
// ring. In a large cluster that is the leader, so that many who join at once get
// into one version; when it does not answer, the few. In the end everybody is.
func (m *Machine) answersFirst(joiner transport.Address, seeds []string, attempt uint32) bool {
	patient := attempt >= patientAttempt
	switch {
	case len(seeds) > 0 && slices.Contains(seeds, m.config.Self.Name):
		return true
	case m.small() && (patient || len(seeds) == 0 && len(m.state.Members) <= fewAnswer):
		return true
	case len(seeds) > 0 && !patient:
		return false
	case !m.small() && m.leads(), attempt >= allAnswerAttempt:
		return true
	case !m.small() && !patient:
		return false
	}
	return slices.Contains(m.local().Ring.Successors(joiner, m.state.Members, fewAnswer), m.config.Self)
}

// onJoin admits a node, or says why not.
func (m *Machine) onJoin(from transport.Address, msg message.Join) {
	if msg.Target != message.TargetOf(m.config.Self) {
		m.refuse(RefusedTarget)
		return
	}
	if _, ok := m.state.Member(from); ok {
		m.send(from, message.Welcome{Target: message.TargetOf(from), State: m.state}) // the first Welcome was lost
		return
	}
	if reason := m.incompatible(from, msg); reason != "" {
		m.send(from, message.JoinRefused{Target: message.TargetOf(from), Final: true, Reason: reason})
		return
	}
	if status := m.self().Status; status == gossip.Exiting {
		m.send(from, message.JoinRefused{Target: message.TargetOf(from), Reason: m.config.Self.String() + " is leaving"})
		return
	}
	if old, ok := m.sameName(from); ok {
		m.replace(old)
		m.send(from, message.JoinRefused{Target: message.TargetOf(from), Reason: fmt.Sprintf(
			"the name is held by %v, which is %v (stop that one, or give this one another name)", old.Address, old.Status)})
		return
	}
	joiner := gossip.Member{Address: from, Status: gossip.Joining, Roles: msg.Roles, Meta: msg.Meta}
	if m.config.votes(joiner) && m.room() <= m.admission.voters(m.config) {
		m.send(from, message.JoinRefused{Target: message.TargetOf(from), Reason: fmt.Sprintf(
			"there are as many members as a static quorum of %d allows (raise it at all members, or let one leave)", m.config.QuorumSize)})
		return
	}
	if reason := m.tooLarge(append(slices.Clone(m.admission.waiting), joiner)); reason != "" {
		m.emit(JoinerTooLarge{Joiner: from, Reason: reason})
		m.send(from, message.JoinRefused{Target: message.TargetOf(from), Reason: reason})
		return
	}
	m.admit(joiner)
}

// incompatible compares what both know, and names the first difference.
func (m *Machine) incompatible(from transport.Address, msg message.Join) string {
	if transport.CheckName("node", from.Name) != nil || !gossip.KeysAscend(msg.Meta) || !gossip.KeysAscend(msg.Compat) ||
		!slices.IsSorted(msg.Roles) || len(msg.Roles) > gossip.MaxRoles || len(msg.Meta) > gossip.MaxKeyValues || len(msg.Compat) > gossip.MaxKeyValues {
		return "its description is malformed"
	}
	if n := gossip.DescriptionSize(msg.Roles, msg.Meta, msg.Compat); n > gossip.MaxDescription {
		return fmt.Sprintf("its description has %d bytes, and %d is the most", n, gossip.MaxDescription)
	}
	for _, theirs := range msg.Compat {
		i, ok := slices.BinarySearchFunc(m.config.Compat, theirs.Key, func(kv gossip.KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
		if ok && m.config.Compat[i].Value != theirs.Value {
			return fmt.Sprintf("%s is %q here and %q in the cluster (make them equal, or stop all members first)",
				theirs.Key, theirs.Value, m.config.Compat[i].Value)
		}
	}
	return m.mismatch(msg.Meta)
}

// mismatch compares what a joiner tells of itself with what members do, where
// that must be equal.
func (m *Machine) mismatch(meta []gossip.KeyValue) string {
	if m.config.MatchMeta == "" {
		return ""
	}
	for _, theirs := range meta {
		if !strings.HasPrefix(theirs.Key, m.config.MatchMeta) {
			continue
		}
		for _, r := range m.state.Members {
			i, ok := slices.BinarySearchFunc(r.Meta, theirs.Key, func(kv gossip.KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
			if ok && r.Status != gossip.Down && r.Meta[i].Value != theirs.Value {
				return fmt.Sprintf("%s is %q here and %q at %s (make them equal, or stop all members first)",
					theirs.Key, theirs.Value, r.Meta[i].Value, r.Name)
			}
		}
	}
	return ""
}

// sameName finds the member that holds the joiner's name.
func (m *Machine) sameName(joiner transport.Address) (gossip.Member, bool) {
	for _, r := range m.state.Named(joiner.Name) {
		if r.Address != joiner {
			return r, true
		}
	}
	return gossip.Member{}, false
}

// replace makes way for a node that was started again under its old name. The
// old incarnation goes at once if it is known to be gone; otherwise it is looked
// at now, and the joiner asks again.
func (m *Machine) replace(old gossip.Member) {
	if old.Address == m.config.Self || old.Status == gossip.Down || old.Status == gossip.Exiting {
		return // it is alive, or the leader is about to remove it
	}
	if m.evidence(old.Address) == gossip.EvidenceGone {
		m.downMembers([]gossip.Member{old}, sentence{})
		return
	}
	m.suspect(old.Address)
}
