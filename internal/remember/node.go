package remember

import (
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A node has the shards of this node, the other members, the messages to them, and the
// output of one Step.
type node struct {
	config   Config
	now      time.Time
	out      Output
	members  map[transport.Address]Member
	order    []transport.Address // keys of members, sorted
	homes    map[placement.ShardID]*home
	outboxes map[transport.Address]*outbox
}

// send puts a message to a member into the output.
func (m *node) send(to transport.Address, msg Message) {
	m.out.Send = append(m.out.Send, Envelope{to, msg})
}

// done answers an Add, if the driver waits for the answer.
func (m *node) done(t Ticket, added bool, err error) {
	if t != 0 {
		m.out.Done = append(m.out.Done, Done{t, added, err})
	}
}

// activate has entities of a shard activated.
func (m *node) activate(h *home, ids []string) {
	if len(ids) > 0 {
		m.out.Activate = append(m.out.Activate, Activate{h.id, ids})
	}
}

// outbox is the one of a member, which is made if there is none.
func (m *node) outbox(to transport.Address) *outbox {
	b := m.outboxes[to]
	if b == nil {
		b = newOutbox(to)
		m.outboxes[to] = b
	}
	return b
}
