package durablehost

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// loads queues a shard's reads for turns. Reads requested together are sent together.
type loads struct {
	waits    map[string]chan durable.Loaded
	queue    []durable.Request // requests that are not sent yet
	under    int               // number of running reads
	starting bool              // a read is about to take requests from the queue
}

// Bounds of a shard's reads: how many run at a time, and how many records each reads. A record may
// have up to 512 KiB.
const (
	maxReads    = 4
	maxTogether = 32
)

func (l *loads) wait(entity string, got chan durable.Loaded) {
	if l.waits == nil {
		l.waits = map[string]chan durable.Loaded{}
	}
	l.waits[entity] = got
}

func (l *loads) forget(entity string, got chan durable.Loaded) {
	if l.waits[entity] == got {
		delete(l.waits, entity)
	}
}

func (l *loads) done(loaded durable.Loaded) {
	if got := l.waits[loaded.Entity]; got != nil {
		delete(l.waits, loaded.Entity)
		got <- loaded
	}
}

func (l *loads) end() {
	for _, got := range l.waits {
		close(got)
	}
	l.waits, l.queue = nil, nil
}

// begin reports whether the caller must start a read, which begins with next.
func (l *loads) begin() bool {
	if l.starting || l.under == maxReads || len(l.queue) == 0 {
		return false
	}
	l.starting = true
	return true
}

// next returns the requests of a read. It returns none after end.
func (l *loads) next() (together []durable.Request) {
	l.starting = false
	if len(l.queue) == 0 {
		return nil
	}
	n, seen := 0, map[string]bool{}
	for n < len(l.queue) && n < maxTogether && l.queue[n].AtLeast == l.queue[0].AtLeast && !seen[l.queue[n].IDs[0]] {
		seen[l.queue[n].IDs[0]] = true
		n++
	}
	together = append(together, l.queue[:n]...)
	l.queue = append(l.queue[:0], l.queue[n:]...)
	l.under++
	return together
}

type asker struct {
	cfg *Config
	ctx context.Context // the tenure's context
	by  *writing
}

func (q asker) askTogether(together []durable.Request) []durable.Response {
	one := together[0]
	one.IDs = make([]string, len(together))
	for i, r := range together {
		one.IDs[i] = r.IDs[0]
	}
	a := q.ask(one)
	all := make([]durable.Response, len(together))
	for i, r := range together {
		all[i] = durable.Response{ID: r.ID, Outcome: a.Outcome, Err: a.Err, Head: a.Head}
		if a.Outcome == durable.OK {
			all[i].Records = a.Records[i : i+1]
		}
	}
	return all
}

func (q asker) ask(r durable.Request) durable.Response {
	c := q.cfg
	patience := c.Patience
	if r.Op == durable.OpRead || r.Op == durable.OpPut {
		patience *= 6
	}
	ctx, cancel := context.WithTimeout(q.ctx, patience)
	defer cancel()
	a := durable.Response{ID: r.ID}
	switch r.Op {
	case durable.OpHead:
		a.Head, a.Err = c.Store.Head(ctx, c.Shard)
	case durable.OpSetHead:
		a.Revision, a.Err = c.Store.SetHead(ctx, c.Shard, r.Head)
	case durable.OpAppend:
		began := time.Now()
		q.by.begun(began)
		a.Position, a.Err = c.Store.Append(ctx, c.Shard, r.Expect, r.Data)
		q.by.took(began, a.Err)
		c.Appends.Measured.ended(c.Shard, &r, began, a.Err)
	case durable.OpRead:
		a.Appends, a.Err = c.Store.Read(ctx, c.Shard, r.From, r.To)
	case durable.OpGet:
		a.Head, a.Records, a.Err = c.Store.Get(ctx, c.Shard, r.IDs, r.AtLeast)
	case durable.OpPut:
		a.Revision, a.Err = c.Store.Put(ctx, c.Shard, r.Head.Revision, r.Changes)
	case durable.OpList:
		c.Appends.lists.Lock() // the process reads one page at a time, because a page is a MiB
		a.Records, a.Err = c.Store.List(ctx, c.Shard, r.After)
		c.Appends.lists.Unlock()
	case durable.OpTrim:
		a.Err = c.Store.Trim(ctx, c.Shard, r.Head)
	}
	a.Outcome = durable.OutcomeOf(r.Op, a.Err)
	return a
}
