package durablehost

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// A listing is one call of [Tenure.List].
type listing struct {
	durable.Query
	done    func(ids []string, more bool, err error)
	stopped bool // nobody waits for the listing any more
}

// List calls done with a page of ids or keys in ascending order, possibly before List returns. more
// reports whether further pages may follow. The page shows everything that was in the log when List
// was called, and nothing that is not in the log yet. The call waits until the catalog of entities
// is complete. A caller that stops waiting must call stop; done may still be called.
func (t *Tenure) List(q durable.Query, done func(ids []string, more bool, err error)) (stop func()) {
	l := &listing{Query: q, done: done}
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		done(nil, false, t.inDoubt(durable.Event{}))
		return func() {}
	}
	t.listLocked(t.nowLocked(), l)
	effects := t.takeLocked()
	t.mu.Unlock()
	effects.run(t)
	return func() { t.look(func(time.Time) { l.stopped = true }) }
}

func (t *Tenure) listLocked(now time.Time, l *listing) {
	if t.lists == nil {
		t.lists = map[uint64]*listing{}
	}
	t.lists[t.core.List(now, l.Query)] = l
}

// pagesLocked passes each page to the caller that waits for it, once the log has all that the page
// shows.
func (t *Tenure) pagesLocked(pages []durable.Page, after *deferredEffects) {
	for _, p := range pages {
		l := t.lists[p.List]
		delete(t.lists, p.List)
		if p.Err != nil {
			t.unlisted = append(t.unlisted, l)
			continue
		}
		after.add(func() { t.Then(p.Ticket, func(err error) { l.done(p.IDs, p.More, err) }) })
	}
}

// listAgainLocked repeats the listings that found an incomplete catalog.
func (t *Tenure) listAgainLocked(now time.Time) {
	t.unlisted = slices.DeleteFunc(t.unlisted, func(l *listing) bool { return l.stopped })
	all := t.unlisted
	t.unlisted = nil
	for _, l := range all {
		if t.core.Lists(l.Of) {
			t.listLocked(now, l)
		} else {
			t.unlisted = append(t.unlisted, l)
		}
	}
}

func (t *Tenure) endListsLocked(err error, after *deferredEffects) {
	all := t.unlisted
	for _, l := range t.lists {
		all = append(all, l)
	}
	t.lists, t.unlisted = nil, nil
	for _, l := range all {
		after.add(func() { l.done(nil, false, err) })
	}
}
