package dashboard

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/runtime/admin"
)

// A kept holds the latest answer, so that viewers who ask shortly after each other share one
// answer. It is safe for concurrent use.
type kept[T any] struct {
	mu sync.Mutex
	at time.Time
	of T
}

// get returns the kept answer. If that is older than the duration old, get calls ask for a new
// answer.
func (k *kept[T]) get(ctx context.Context, old time.Duration, ask func(context.Context) T) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); k.at.IsZero() || now.Sub(k.at) >= old {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout) // others wait for it, too
		defer cancel()
		k.of, k.at = ask(ctx), now
	}
	return k.of
}

// keptOf keeps an answer about each type. It is safe for concurrent use.
type keptOf[T any] struct {
	mu  sync.Mutex
	all map[string]*kept[T]
}

// of returns where a type's answer is kept.
func (k *keptOf[T]) of(kind string) *kept[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]*kept[T]{}
	}
	if k.all[kind] == nil {
		k.all[kind] = new(kept[T])
	}
	return k.all[kind]
}

// ofType answers with ask's result for the type in the request's parameter "name". It asks only
// about types that members know, which bounds the kept answers.
func ofType[T any](h *handler, w http.ResponseWriter, r *http.Request, all *keptOf[T], ask func(ctx context.Context, kind string) T) {
	h.about(w, r, func(ctx context.Context, now *snapshot, name string) {
		if !slices.ContainsFunc(now.Types, func(t typeRow) bool { return t.Name == name }) {
			http.Error(w, "no member hosts such a type", http.StatusNotFound)
			return
		}
		h.send(w, r, all.of(name).get(ctx, shardsFresh, func(ctx context.Context) T { return ask(ctx, name) }))
	})
}

// about calls the function then with the cluster's state and the request's parameter "name".
func (h *handler) about(w http.ResponseWriter, r *http.Request, then func(ctx context.Context, now *snapshot, name string)) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	if now := h.look(ctx, w); now != nil {
		then(ctx, now, r.URL.Query().Get("name"))
	}
}

func (h *handler) trends(w http.ResponseWriter, r *http.Request) {
	h.about(w, r, func(_ context.Context, now *snapshot, _ string) { h.send(w, r, now.trends) })
}

// A process is the answer of /api/member.
type process struct {
	Name        string                `json:"name"`
	Known       bool                  `json:"known"` // the process answered
	Started     time.Time             `json:"started,omitzero"`
	Release     string                `json:"release"`
	Program     string                `json:"program"`
	Go          string                `json:"go"`
	Server      string                `json:"server"`
	MaxPayload  int                   `json:"max_payload"`
	Ready       bool                  `json:"ready"`
	Reasons     []string              `json:"reasons"`
	Heap        uint64                `json:"heap"`
	Memory      uint64                `json:"memory"`
	MemoryLimit uint64                `json:"memory_limit"`
	Goroutines  int                   `json:"goroutines"`
	Procs       int                   `json:"procs"`
	Used        float64               `json:"used"`
	Capacity    float64               `json:"capacity"`
	GC          float64               `json:"gc"` // share of Used
	Zone        string                `json:"zone"`
	Gateway     bool                  `json:"gateway"`
	Store       string                `json:"store"`
	Clients     []string              `json:"clients"`
	ClientCount int                   `json:"client_count"`
	Findings    []clusterview.Finding `json:"findings"`
	Hottest     []hotShard            `json:"hottest"`
}

type hotShard struct {
	Type  string  `json:"type"`
	Shard uint32  `json:"shard"`
	Used  float64 `json:"used"`
}

func (h *handler) member(w http.ResponseWriter, r *http.Request) {
	h.about(w, r, func(_ context.Context, now *snapshot, name string) {
		f, ok := now.processes[name]
		p := process{
			Name: name, Known: ok, Started: f.Started, Release: f.Release, Program: f.Program, Go: f.Go, Server: f.Server, MaxPayload: f.MaxPayload,
			Ready: f.Ready, Reasons: append([]string{}, f.Reasons...), Heap: f.Heap, Memory: f.Memory, MemoryLimit: f.MemoryLimit,
			Goroutines: f.Goroutines, Procs: f.Procs, Gateway: f.Gateway, Clients: append([]string{}, f.Clients...), ClientCount: f.ClientCount,
			Findings: []clusterview.Finding{}, Hottest: []hotShard{}, Store: storeText(f),
		}
		if l := f.Load; l != nil {
			p.Used, p.Capacity, p.GC, p.Zone = l.Used, l.Capacity, l.GC, l.Zone
			for _, s := range l.Hottest {
				p.Hottest = append(p.Hottest, hotShard{s.Kind, s.Shard, s.Used})
			}
		}
		for _, f := range now.Health.Findings {
			if f.Node == name {
				p.Findings = append(p.Findings, f)
			}
		}
		h.send(w, r, p)
	})
}

func storeText(f admin.Fact) string {
	switch {
	case !f.Store:
		return ""
	case f.StoreName == "":
		return "it does not say which"
	}
	return fmt.Sprintf("%s, %d replicas", f.StoreName, max(1, f.StoreReplicas))
}

// pageSize is the number of entities in a page.
const pageSize = 100

type entityRow struct {
	ID string `json:"id"`
	// Binary means that the id is not UTF-8, and ID shows it quoted.
	Binary bool `json:"binary,omitempty"`
}

// An entityPage is the answer of /api/entities.
type entityPage struct {
	Entities []entityRow `json:"entities"`
	After    string      `json:"after,omitempty"` // the parameter "after" of the next page; "" means there is none
	Error    string      `json:"error,omitempty"`
}

func (h *handler) entities(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	q := r.URL.Query()
	after, err := base64.RawURLEncoding.DecodeString(q.Get("after"))
	if err != nil || q.Get("type") == "" {
		http.Error(w, "set type, and set after to the value in the previous page", http.StatusBadRequest)
		return
	}
	page, last := entityPage{Entities: []entityRow{}}, ""
	for id, err := range h.source.Entities(ctx, q.Get("type"), admin.Listing{
		Prefix: q.Get("prefix"), After: string(after), Limit: pageSize + 1, Active: q.Get("active") != "", Where: q.Get("where"),
	}) {
		if err != nil {
			page.Error = err.Error()
			break
		}
		if len(page.Entities) == pageSize {
			page.After = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		last = id
		row := entityRow{ID: id}
		if !utf8.ValidString(id) {
			row = entityRow{fmt.Sprintf("%q", id), true}
		}
		page.Entities = append(page.Entities, row)
	}
	h.send(w, r, page)
}

// A reminderPage is the answer of /api/reminders.
type reminderPage struct {
	Late    int           `json:"late"`    // entities with a reminder due for more than lateAfter
	Soon    int           `json:"soon"`    // others with a reminder due within an hour
	Pending int           `json:"pending"` // all entities with reminders
	More    bool          `json:"more"`    // Pending is not all of them
	First   []reminderRow `json:"first"`   // the first to be due
	Error   string        `json:"error,omitempty"`
}

type reminderRow struct {
	entityRow
	Due time.Time `json:"due"`
}

const (
	remindersCounted = 1000
	remindersShown   = 50
	// lateAfter is how long after its due time a reminder is late.
	lateAfter = 5 * time.Second
)

func (h *handler) reminders(w http.ResponseWriter, r *http.Request) {
	ofType(h, w, r, &h.remindersOf, h.countReminders)
}

func (h *handler) countReminders(ctx context.Context, kind string) reminderPage {
	now, page := time.Now(), reminderPage{First: []reminderRow{}}
	for e, err := range h.source.Reminded(ctx, kind, remindersCounted+1) {
		switch {
		case err != nil:
			page.Error = err.Error()
		case page.Pending == remindersCounted:
			page.More = true
		default:
			page.add(e, now)
			continue
		}
		break
	}
	return page
}

func (p *reminderPage) add(e admin.Reminded, now time.Time) {
	p.Pending++
	switch in := e.Due.Sub(now); {
	case in < -lateAfter:
		p.Late++
	case in < time.Hour:
		p.Soon++
	}
	if len(p.First) < remindersShown {
		row := reminderRow{entityRow{ID: e.ID}, e.Due}
		if !utf8.ValidString(e.ID) {
			row.entityRow = entityRow{fmt.Sprintf("%q", e.ID), true}
		}
		p.First = append(p.First, row)
	}
}

// A poolAnswer is the answer of /api/pool.
type poolAnswer struct {
	Why   string `json:"why"` // why this number of instances
	Error string `json:"error,omitempty"`
}

func (h *handler) pool(w http.ResponseWriter, r *http.Request) {
	ofType(h, w, r, &h.poolOf, func(ctx context.Context, kind string) (a poolAnswer) {
		first, err := h.source.Where(ctx, kind, "0")
		if err != nil {
			a.Error = err.Error()
		}
		_, a.Why, _ = strings.Cut(first.Why, "; the pool has ")
		return a
	})
}

// A feedsAnswer is the answer of /api/feeds.
type feedsAnswer struct {
	Feeds []feedRow `json:"feeds"`
	Error string    `json:"error,omitempty"`
}

type feedRow struct {
	Feed      string    `json:"feed"`
	Partition uint32    `json:"partition"`
	Stream    string    `json:"stream"`
	Position  uint64    `json:"position"`
	Lag       *uint64   `json:"lag"` // messages from Position on, at most; nil means not known
	Waiting   uint32    `json:"waiting"`
	Dead      uint64    `json:"dead"`
	Missed    uint64    `json:"missed"`
	Node      string    `json:"node"`
	Written   time.Time `json:"written"`
	Why       string    `json:"why"`
	Stands    bool      `json:"stands"` // Why is set, or work waits without progress for standsAfter
}

// standsAfter is how long a feed with unread messages or uncommitted tells may make no progress.
// After that time the feed counts as standing still.
const standsAfter = 30 * time.Second

func (h *handler) feeds(w http.ResponseWriter, r *http.Request) {
	h.send(w, r, h.feedsOf.get(r.Context(), shardsFresh, func(ctx context.Context) feedsAnswer {
		all, err := h.source.Feeds(ctx)
		a := feedsAnswer{Feeds: []feedRow{}}
		if err != nil {
			a.Error = err.Error()
		}
		for _, f := range all {
			row := feedRow{Feed: f.Feed, Partition: f.Partition, Stream: f.Stream, Position: f.Position, Waiting: f.Waiting, Dead: f.Dead, Missed: f.Missed, Node: f.Node, Written: f.Written, Why: f.Why}
			if f.End > 0 {
				row.Lag = new(f.End + 1 - min(max(f.Position, 1), f.End+1))
			}
			row.Stands = f.Why != "" || (f.Waiting > 0 || row.Lag != nil && *row.Lag > 0) && time.Since(f.Written) > standsAfter
			a.Feeds = append(a.Feeds, row)
		}
		return a
	}))
}

// A storeAnswer is the answer of /api/store.
type storeAnswer struct {
	Stores []storeRow            `json:"stores"`
	Faults []clusterview.Finding `json:"faults"` // of the store
	Checks []Check               `json:"checks"`
}

type storeRow struct {
	Store   string   `json:"store"` // "" means none
	Members []string `json:"members"`
}

func (h *handler) store(w http.ResponseWriter, r *http.Request) {
	h.about(w, r, func(ctx context.Context, now *snapshot, _ string) {
		a := storeAnswer{Stores: []storeRow{}, Faults: []clusterview.Finding{}, Checks: []Check{}}
		for _, name := range verdict.SortedKeys(now.processes) {
			text := storeText(now.processes[name])
			i := slices.IndexFunc(a.Stores, func(s storeRow) bool { return s.Store == text })
			if i < 0 {
				i, a.Stores = len(a.Stores), append(a.Stores, storeRow{Store: text})
			}
			a.Stores[i].Members = append(a.Stores[i].Members, name)
		}
		for _, f := range now.Health.Findings {
			if f.Check == verdict.Store {
				a.Faults = append(a.Faults, f)
			}
		}
		if h.options.Checks != nil {
			a.Checks = h.checks.get(ctx, trendsFresh, h.options.Checks)
		}
		h.send(w, r, a)
	})
}
