package membership

import (
	"fmt"
	"strings"
)

// String is for transcripts and logs.
func (m Hello) String() string {
	if len(m.Seeds) == 0 {
		return fmt.Sprintf("hello %d", m.Attempt)
	}
	return fmt.Sprintf("hello %d to %s", m.Attempt, strings.Join(m.Seeds, ","))
}

// String is for transcripts and logs.
func (m HelloAck) String() string { return "hello-ack" }

// String is for transcripts and logs.
func (m Join) String() string { return "join" }

// String is for transcripts and logs.
func (m Welcome) String() string { return "welcome: " + m.State.String() }

// String is for transcripts and logs.
func (m JoinRefused) String() string {
	if m.Final {
		return "join refused for good: " + m.Reason
	}
	return "join refused: " + m.Reason
}

// String is for transcripts and logs.
func (m GossipMessage) String() string { return "gossip: " + m.State.String() }

// String is for transcripts and logs.
func (m GossipStatus) String() string {
	if m.All {
		return fmt.Sprintf("status: version %x seen by all", m.Version[0])
	}
	return fmt.Sprintf("status: version %x seen by %d of %d", m.Version[0], m.Seen.Count(), m.Members)
}

// String is for transcripts and logs.
func (m Heartbeat) String() string { return fmt.Sprintf("heartbeat %d", m.Seq) }

// String is for transcripts and logs.
func (m HeartbeatAck) String() string { return fmt.Sprintf("heartbeat-ack %d", m.Seq) }

// String is for transcripts and logs.
func (m Alive) String() string { return fmt.Sprintf("alive size=%d", m.Size) }

// String is for transcripts and logs.
func (m Echo) String() string { return fmt.Sprintf("echo %d", m.Seq) }

// String is for transcripts and logs.
func (m Removal) String() string { return "removal" }

// String is for transcripts and logs.
func (m Vote) String() string { return fmt.Sprintf("vote %d", m.Seq) }

// String is for transcripts and logs.
func (m VoteAck) String() string {
	return fmt.Sprintf("vote-ack %d: majority %v, all %v ago", m.Seq, m.Majority, m.All)
}
