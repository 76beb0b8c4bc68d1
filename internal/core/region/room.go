package region

import (
	"sync"
	"sync/atomic"
)

// A Bound names the limit that left no room for a call to wait.
type Bound uint8

// The bounds, by the limits that set them.
const (
	MailboxCalls Bound = iota // Limits.Mailbox
	MailboxBytes              // Limits.MailboxBytes
	ShardCalls                // Limits.Waiting
	ShardBytes                // Limits.ShardBytes
	NodeBytes                 // Limits.Budget
	ClientBytes               // the share of Limits.Budget for all clients of one name, or for one caller of gateways
)

// A Budget bounds the bytes of the calls that wait in several shards together. A nil Budget has no
// limit. It is safe for concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64

	mu      sync.Mutex
	clients map[payer]int64 // bytes of the calls of clients and of gateways' callers
}

// payer identifies the processes outside the cluster that share a name; the name follows from their
// rights at the broker. A Budget counts their calls together.
type payer struct {
	name    string
	gateway bool // the process calls by way of gateways, which are members
}

func (c *Call) payer() payer {
	switch {
	case c.Gateway != "":
		return payer{c.Gateway, true}
	case c.Sender.Client:
		return payer{c.Sender.Name, false}
	}
	return payer{}
}

// clientShare divides a Budget: one payer's calls take at most 1/clientShare of the bytes.
const clientShare = 2

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: int64(limit)} }

// ClientLimit returns how many bytes of a Budget the calls of all clients of one name, or of one
// caller of gateways, may take. limit is the Budget's size in bytes.
func ClientLimit(limit int) int { return limit / clientShare }

// takeFor reserves the bytes of a call. If there is no room, it returns the bound that was reached.
func (b *Budget) takeFor(c *Call) (full Bound, ok bool) {
	switch {
	case b == nil:
		return 0, true
	case !b.takeClient(c):
		return ClientBytes, false
	case !b.Take(c.Size):
		b.giveClient(c)
		return NodeBytes, false
	}
	return 0, true
}

func (b *Budget) giveFor(c *Call) {
	if b != nil {
		b.giveClient(c)
		b.Give(c.Size)
	}
}

func (b *Budget) takeClient(c *Call) bool {
	by, n := c.payer(), int64(c.Size)
	if by == (payer{}) {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clients[by]+n > b.limit/clientShare {
		return false
	}
	if b.clients == nil {
		b.clients = map[payer]int64{}
	}
	b.clients[by] += n
	return true
}

func (b *Budget) giveClient(c *Call) {
	by := c.payer()
	if by == (payer{}) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clients[by] -= int64(c.Size); b.clients[by] <= 0 {
		delete(b.clients, by)
	}
}

// Take reserves n bytes if they are available, and reports whether they were.
func (b *Budget) Take(n int) bool {
	if b == nil || b.used.Add(int64(n)) <= b.limit {
		return true
	}
	b.used.Add(-int64(n))
	return false
}

// Force reserves n bytes even if they are not available, for calls that were accepted before.
func (b *Budget) Force(n int) {
	if b != nil {
		b.used.Add(int64(n))
	}
}

// Give releases n bytes.
func (b *Budget) Give(n int) { b.Force(-n) }

// Used returns the number of reserved bytes.
func (b *Budget) Used() int64 { return b.used.Load() }

func above(limit, used, size int) bool { return limit > 0 && used+size > limit }

// Limits bound the calls that wait in one shard.
type Limits struct {
	Mailbox int // calls that wait for one entity
	Waiting int // calls that wait for the shard to open, or at one barrier
	// MailboxBytes and ShardBytes bound the sizes of the waiting calls of one entity, and of the
	// shard; 0 means no bound.
	MailboxBytes, ShardBytes int
	// Budget bounds the sizes of all waiting calls in the shards that share it.
	Budget *Budget
	// Lead is an entity to be activated before any call: its first turn in the opened shard is the
	// driver's own. Empty means none.
	Lead string
	// Handoff is how the shard moves.
	Handoff Handoff
}

func (s *Shard) reserve(c *Call) bool {
	switch {
	case c.held:
		return true
	case above(s.limits.ShardBytes, s.bytes, c.Size):
		c.Full = ShardBytes
		return false
	}
	if full, ok := s.limits.Budget.takeFor(c); !ok {
		c.Full = full
		return false
	}
	c.held = true
	s.bytes += c.Size
	return true
}

func (s *Shard) release(c *Call) {
	if c.held {
		c.held = false
		s.bytes -= c.Size
		s.limits.Budget.giveFor(c)
	}
}

func (s *Shard) sift(q *queue, drop func(*Call) bool) []*Call {
	out := q.filter(drop)
	for _, c := range out {
		s.release(c)
	}
	return out
}

func (s *Shard) wait(q *queue, c *Call) Verdict {
	if q.len() >= s.limits.Waiting {
		c.Full = ShardCalls
		return Overloaded
	}
	if !s.reserve(c) {
		return Overloaded
	}
	q.push(c)
	return Queued
}

func (s *Shard) post(e *Entity, c *Call) Verdict {
	joined, mailbox := waitingTells(e.word.Load()), e.mailbox()
	switch {
	case mailbox.len()+joined >= s.limits.Mailbox:
		c.Full = MailboxCalls
		return Overloaded
	case above(s.limits.MailboxBytes, mailbox.size()+joined*TellBytes, c.Size):
		c.Full = MailboxBytes
		return Overloaded
	case !s.reserve(c):
		return Overloaded
	}
	e.more().mailbox.push(c)
	return Queued
}

// Bytes returns the size of all calls that wait in the shard: for turns, at barriers, or for it to
// open.
func (s *Shard) Bytes() int { return s.bytes }
