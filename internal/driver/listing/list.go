package listing

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/shardgen/shardgen/internal/wire"
)

// Bounds of one [Lister.List].
const (
	atOnce    = 16      // requests under way
	held      = 4 << 20 // bytes of all pages
	firstIDs  = 1 << 14 // ids in all first pages together, but 16 to 256 for each shard. First pages are small, so that the first id comes soon
	aheadUpTo = 1024    // number of shards above which no page is requested before it is needed: the pages would be too small
)

// A Lister lists the ids of one type.
type Lister struct {
	Kind   string
	Shards int
	// Ask returns the answer of a shard's home to an encoded request. shard counts from 0. It
	// returns soon after ctx has ended. It is called by several goroutines at the same time.
	Ask func(ctx context.Context, shard int, request []byte) (page []byte, err error)
	// Remedy is added to the errors of Ask.
	Remedy string
}

// List yields the ids that r requests, from all shards and in ascending order. It ignores r.Limit
// and r.Bytes. It ends after the first error. However many ids there are, List holds at most about
// 4 MiB of them in memory.
func (l *Lister) List(ctx context.Context, r wire.ListRequest) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		m := newMerge(l, r)
		defer m.asking.Wait()
		defer cancel()
		for {
			id, err := m.next(ctx)
			if err != nil {
				yield("", fmt.Errorf("list %s: %w", l.Kind, err))
				return
			}
			if id == nil || !yield(string(id), nil) {
				return
			}
		}
	}
}

// merge merges the pages of all shards. One goroutine uses merge; goroutines counted by asking only
// send to answers.
type merge struct {
	of      *Lister
	request wire.ListRequest
	shards  []shard
	ahead   bool // pages are requested before they are needed
	heads   heads
	dry     int   // number of shards that may have ids, but whose next id is unknown
	wanted  []int // shards whose requests wait
	under   int   // requests under way
	answers chan answer
	asking  sync.WaitGroup
}

// A shard records how far one shard was listed.
type shard struct {
	index  int
	head   []byte         // the next id to yield; nil: it is not known, or there is no more id
	page   wire.ListPage  // what follows head
	size   int            // the bytes of page when it came
	after  []byte         // the last id of the latest page
	more   bool           // there may be ids behind the latest page
	asked  bool           // a request waits or is under way
	behind *wire.ListPage // the page after page; nil: it has not come
}

type answer struct {
	shard int
	page  []byte
	err   error
}

func newMerge(l *Lister, r wire.ListRequest) *merge {
	m := &merge{of: l, request: r, shards: make([]shard, l.Shards), dry: l.Shards, ahead: l.Shards <= aheadUpTo, answers: make(chan answer, atOnce)}
	pages := l.Shards
	if m.ahead {
		pages *= 2
	}
	m.request.Bytes = uint32(min(max(held/max(pages, 1), 1), MaxBytes))
	for i := range m.shards {
		s := &m.shards[i]
		s.index, s.more, s.after = i, true, []byte(r.After)
		m.want(s)
	}
	return m
}

// next returns the next id of all shards, or nil at the end.
func (m *merge) next(ctx context.Context) ([]byte, error) {
	for m.ask(ctx); m.dry > 0; m.ask(ctx) {
		if err := m.answered(<-m.answers); err != nil {
			return nil, err
		}
	}
	if err := m.look(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(m.heads) == 0 {
		return nil, nil
	}
	s := m.heads[0]
	id := s.head
	if m.advance(s); s.head != nil {
		heap.Fix(&m.heads, 0)
	} else {
		heap.Pop(&m.heads)
	}
	return id, nil
}

// look takes answers that have come, without waiting for others, so that waiting requests can be
// sent.
func (m *merge) look() error {
	for len(m.wanted) > 0 {
		select {
		case a := <-m.answers:
			if err := m.answered(a); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// want queues a request for the shard's next page.
func (m *merge) want(s *shard) {
	s.asked = true
	m.wanted = append(m.wanted, s.index)
}

func (m *merge) ask(ctx context.Context) {
	for m.under < atOnce && len(m.wanted) > 0 {
		s := &m.shards[m.wanted[0]]
		m.wanted = m.wanted[1:]
		m.under++
		r := m.requestOf(s)
		args := r.Append(nil)
		m.asking.Go(func() {
			page, err := m.of.Ask(ctx, s.index, args)
			m.answers <- answer{s.index, page, err} // it has room for all
		})
	}
}

func (m *merge) requestOf(s *shard) wire.ListRequest {
	r := m.request
	r.After, r.Limit = string(s.after), MaxIDs
	if r.After == m.request.After {
		r.Limit = uint32(min(max(firstIDs/m.of.Shards, 16), 256))
	}
	return r
}

// number returns the shard number for an index: see package placement.
func (m *merge) number(index int) int { return m.of.Shards + index }

func (m *merge) answered(a answer) error {
	m.under--
	s := &m.shards[a.shard]
	s.asked = false
	if a.err != nil {
		return fmt.Errorf("shard %d did not answer: %w%s", m.number(s.index), a.err, m.of.Remedy)
	}
	r := m.requestOf(s)
	page, last, err := wire.ParseListPage(a.page, &r)
	if err != nil {
		return fmt.Errorf("shard %d: %w (do its home and this process run different versions?)", m.number(s.index), err)
	}
	s.after, s.more = bytes.Clone(last), page.More() // the page may go first
	if s.head != nil {
		s.behind = &page
		return nil
	}
	m.dry--
	m.turn(s, page)
	if s.head != nil {
		heap.Push(&m.heads, s)
	}
	return nil
}

// turn makes page the current page of the shard, and its first id the head.
func (m *merge) turn(s *shard, page wire.ListPage) {
	s.page, s.size = page, page.Left()
	s.head = s.page.Next()
}

// advance moves to the shard's next id. Past the middle of a page it requests the next page.
func (m *merge) advance(s *shard) {
	s.head = s.page.Next()
	if s.head == nil && s.behind != nil {
		m.turn(s, *s.behind)
		s.behind = nil
	}
	if s.head == nil && s.more {
		m.dry++
	}
	if s.more && !s.asked && s.behind == nil && (s.head == nil || m.ahead && s.page.Left() <= s.size/2) {
		m.want(s)
	}
}

// heads is a heap of the shards whose next ids are known.
type heads []*shard

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return bytes.Compare(h[i].head, h[j].head) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(*shard)) }

func (h *heads) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
