package durable

import "github.com/shardgen/shardgen/internal/wire"

// commitMessages are the protobuf messages of one commit, in one piece of memory.
type commitMessages struct {
	entry   wire.DurableEntry
	kind    wire.DurableEntry_Commit
	commit  wire.DurableCommit
	command wire.DurableCommand
}

// messages keeps the commitMessages of acknowledged commits for the next ones. The zero value is
// ready.
type messages struct{ spare []*commitMessages }

// spareMessages is how many a shard keeps.
const spareMessages = 64

func (m *messages) get() *commitMessages {
	n := len(m.spare)
	if n == 0 {
		return &commitMessages{}
	}
	c := m.spare[n-1]
	m.spare = m.spare[:n-1]
	return c
}

// put takes messages that nobody has any more; nil is none.
func (m *messages) put(c *commitMessages) {
	if c == nil || len(m.spare) == spareMessages {
		return
	}
	*c = commitMessages{} // Reset of each would also register its type again
	m.spare = append(m.spare, c)
}
