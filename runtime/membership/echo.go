package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// onConnState: what was known came through the old connection. Over a new one
// everybody may look different for a while, so all evidence is dropped.
func (m *Machine) onConnState(in ConnState) {
	fresh := in.Connected && (!m.conn.Connected || m.conn.Server != in.Server)
	m.conn, m.mark = in, message.MarkOf(in.Server)
	if !fresh {
		return
	}
	m.noteExposed(in.Server)
	m.detect.echoGood, m.detect.echoes = false, nil
	m.detect.echoAt, m.detect.aliveAt = m.now, m.now
	m.join.helloAt, m.join.heardSelf = m.now, time.Time{}
	m.clearEvidence()
}

// runEcho sends a message through the broker to oneself. Only a node whose own
// messages come back may take the silence of others for theirs.
func (m *Machine) runEcho() {
	if m.phase != member || !m.due(&m.detect.echoAt, m.config.EchoInterval) || !m.conn.Connected {
		return
	}
	m.detect.echoSeq++
	if len(m.detect.echoes) == maxEchoes {
		m.detect.echoes = slices.Delete(m.detect.echoes, 0, 1)
	}
	m.detect.echoes = append(m.detect.echoes, echo{m.detect.echoSeq, m.now})
	m.send(m.config.Self, message.Echo{Seq: m.detect.echoSeq})
}

func (m *Machine) onEcho(from transport.Address, msg message.Echo) {
	if m.phase != member || from != m.config.Self {
		return
	}
	i := slices.IndexFunc(m.detect.echoes, func(e echo) bool { return e.seq == msg.Seq })
	if i < 0 {
		return // it went through an earlier connection
	}
	if !m.echoAlive() {
		m.clearEvidence() // nothing came through, so nobody could be heard
		if last := m.detect.echoSent; !last.IsZero() && m.now.Sub(last) > m.config.LeaseEcho {
			m.detect.muffled = m.now
		}
	}
	m.detect.echoSent, m.detect.echoGood = m.detect.echoes[i].sent, true
	m.detect.echoes = slices.Delete(m.detect.echoes, 0, i+1)
}

// echoAlive reports whether the way through the broker is open, there and back.
func (m *Machine) echoAlive() bool {
	return m.conn.Connected && m.detect.echoGood && m.now.Sub(m.detect.echoSent) <= m.config.LeaseEcho
}

// aliveEarly is how long a new member broadcasts often: two clusters that were
// formed at the same time should meet soon.
const aliveEarly = 10 * time.Second

// aliveInterval is the time between two [Alive] broadcasts. Up to seven members
// hear each other's heartbeats anyway; more need it to hear from a majority
// within LeaseMajority.
func (m *Machine) aliveInterval() time.Duration {
	n := len(m.state.Members)
	switch {
	case !m.small() && m.now.Sub(m.spreading.memberSince) >= aliveEarly:
		return 10 * time.Second
	case n > m.config.Watched+1 || m.now.Sub(m.spreading.memberSince) < aliveEarly:
		return time.Second
	}
	return 5 * time.Second
}

// runAlive broadcasts. In a large cluster the leader alone does it.
func (m *Machine) runAlive() {
	if m.due(&m.detect.aliveAt, m.aliveInterval()) && (m.small() || m.leads()) {
		m.broadcast(m.alive())
	}
}

func (m *Machine) alive() message.Alive {
	f := m.local()
	if !m.bound() {
		m.detect.loose = m.now
	}
	return message.Alive{Founder: m.state.Founder, Size: uint32(f.Fulls), Barred: f.Barred, Server: m.mark, Bound: m.bound()}
}

// onAlive: a sign of life of a member, or of another cluster of the same name.
// Then the smaller one gives way; of two equal ones that of the later founder.
func (m *Machine) onAlive(in Receive, msg message.Alive) {
	if msg.Founder == m.state.Founder {
		if msg.Barred == m.local().Barred { // this node is not
			m.keptCompany(in.From)
			if !msg.Bound {
				m.vouched(in.From)
			}
		}
		m.namedServer(in, msg.Server)
		return
	}
	mine := uint32(m.local().Fulls)
	if mine > msg.Size || mine == msg.Size && gossip.FounderBefore(m.state.Founder, msg.Founder) {
		m.send(in.From, m.alive()) // it need not wait for the next broadcast
		return
	}
	m.publish()
	m.emit(SelfDowned{
		Reason: "there is another cluster of this name, formed by " + msg.Founder.String() + ", and it is larger or older",
		Rejoin: true,
	})
	m.end()
}
