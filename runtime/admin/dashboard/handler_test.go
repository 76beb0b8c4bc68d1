package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A fake is a cluster of two members with four shards.
type fake struct {
	asked     atomic.Int64 // questions for the members
	shards    atomic.Int64 // questions for the shards
	trends    atomic.Int64 // questions for trends
	whole     atomic.Int64 // those for all of the hour
	feeds     atomic.Int64 // questions for feeds
	reminders atomic.Int64 // questions for reminders
	lines     atomic.Int64
	failed    atomic.Pointer[error]
}

var n1, n2 = transport.Address{Name: "n1", Incarnation: 1}, transport.Address{Name: "n2", Incarnation: 2}

func (f *fake) Members(context.Context) (admin.View, error) {
	f.asked.Add(1)
	time.Sleep(100 * time.Millisecond) // virtual
	if err := f.failed.Load(); err != nil {
		return admin.View{}, *err
	}
	return admin.View{Self: n1, Leader: n1, Coordinator: n2, Converged: true, Pause: admin.Pause{By: "ann", At: time.Unix(60, 0)}, Members: []admin.Member{
		{Address: n1, Status: membership.Up, Reachable: true, Hosts: []string{"Cart"}},
		{Address: n2, Status: membership.Up, Evidence: "silent"},
	}}, nil
}

func (f *fake) Facts(context.Context) ([]admin.NodeFact, error) {
	found := []operator.Finding{{Check: "store", Node: "n1", Severity: operator.Fault, Text: "the store is full"}}
	until := time.Unix(7200, 0)
	return []admin.NodeFact{
		{Node: n1, Fact: admin.Fact{
			MaxPayload: 1 << 20, Ready: true, Findings: found, Store: true, StoreName: "shop", StoreReplicas: 3, Release: "v1",
			Load:     &measure.Process{Used: 0.5, Capacity: 2, Zone: "b", Hottest: []measure.Shard{{Kind: "Cart", Shard: 4, Used: 0.25}}},
			Expiries: []transport.Expiry{{What: "the JWT", Until: until.Add(1)}, {What: "the certificate", Until: until}},
		}},
		{Node: n2, Fact: admin.Fact{MaxPayload: 1 << 20, Ready: true}},
	}, nil
}

func (f *fake) Shards(context.Context, string) ([]admin.NodeShards, error) {
	f.shards.Add(1)
	return []admin.NodeShards{
		{Node: n1, Types: []admin.Type{{Kind: "Cart", Shards: 4, Waiting: 2, Instances: 4, Wanted: 5, Durable: true, Held: []admin.Shard{
			{Shard: 4, State: "active", Entities: 3, Active: 1, Used: 0.25}, {Shard: 5, State: "sent"}, {Shard: 6, State: "forwarding"},
		}}}},
		{Node: n2, Types: []admin.Type{{Kind: "Many"}, {Kind: "Chief"}, {Kind: "Cart", Shards: 4, Homeless: []uint32{7}, Held: []admin.Shard{
			{Shard: 5, State: "opening", Waiting: 1}, {Shard: 6, State: "active", Entities: 1},
		}}}},
		{Node: transport.Address{Name: "n3", Incarnation: 3}, Err: errors.New("it does not answer")}, // it has just left the view
	}, nil
}

func (f *fake) Turns(context.Context) ([]admin.NodeTurns, error) { return nil, nil }

func (f *fake) Counters(context.Context) ([]admin.NodeCounters, error) {
	return []admin.NodeCounters{{Node: n1, Counters: map[string]uint64{"refused": 2}}, {Node: n2, Counters: map[string]uint64{"refused": 3}}}, nil
}

func (f *fake) Moves(context.Context) ([]admin.Move, transport.Address, error) {
	return []admin.Move{{Kind: "Cart", Shard: 5, From: n1, To: n2, Why: "fewer shards", Phase: "the state is sent", For: 3 * time.Second}}, n2, nil
}

func (f *fake) Where(_ context.Context, kind, id string) (admin.Place, error) {
	if kind != "Cart" {
		return admin.Place{}, fmt.Errorf("no member hosts %s", kind)
	}
	return admin.Place{Shard: 4, Node: "n1", Epoch: "1.1", Why: "it was given its first home there; the pool has 4 of 5 instances"}, nil
}

func (f *fake) Inspect(_ context.Context, kind, id string) (admin.Entity, error) {
	e := admin.Entity{Kind: kind, ID: id, Node: n1, Active: true, Bytes: 12}
	if id == "hung" {
		turn := operator.Turn{EntityID: operator.EntityID{Kind: kind, ID: id}, Method: "Add", From: "client web"}
		e.Bytes, e.Mailbox, e.Turn = 0, 7, &admin.RunningTurn{Turn: turn, For: 3 * time.Second}
	}
	return e, nil
}

func (f *fake) State(context.Context, string, string) (admin.Entity, error) {
	return admin.Entity{Active: true, JSON: `{"Total":9007199254740993}`}, nil
}

func (f *fake) Trends(_ context.Context, after time.Time) ([]admin.NodeTrend, error) {
	f.trends.Add(1)
	if after.IsZero() {
		f.whole.Add(1)
	}
	now := time.Now().UTC().Truncate(time.Minute)
	carts := admin.TypeMinute{Kind: "Cart", Failed: 6, Took: []operator.Bucket{{Number: 21, Turns: 60}}}
	all := []admin.Minute{{At: now, Lasted: 30 * time.Second, Types: []admin.TypeMinute{carts}}}
	if after.IsZero() {
		all = slices.Insert(all, 0, admin.Minute{At: now.Add(-30 * time.Minute), Lasted: time.Minute, Used: 0.5, Memory: 5, Types: []admin.TypeMinute{carts}})
	}
	return []admin.NodeTrend{{Node: n1, Minutes: all}, {Node: n2, Err: errors.New("trends is unknown to this version (upgrade this node)")}}, nil
}

func (f *fake) Feeds(context.Context) ([]admin.Feed, error) {
	f.feeds.Add(1)
	now := time.Now()
	return []admin.Feed{
		{Feed: "orders", Position: 7, End: 9, Waiting: 2, Dead: 1, Node: "n1", Written: now},
		{Feed: "orders", Partition: 1, Position: 10, End: 9, Node: "n2", Written: now.Add(-time.Hour)},
		{Feed: "orders", Partition: 2, Position: 3, Waiting: 1, Written: now.Add(-time.Hour)},
		{Feed: "orders", Partition: 3, Position: 3, End: 9, Written: now.Add(-time.Hour)},
		{Feed: "orders", Partition: 4, Why: "it has 1000 dead letters, the most allowed: reading continues when some are removed", Written: now},
	}, nil
}

func (f *fake) Entities(_ context.Context, kind string, l admin.Listing) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if kind != "Cart" {
			yield("", fmt.Errorf("no member hosts %s", kind))
			return
		}
		for i := range 250 {
			id := fmt.Sprintf("%s%03d\xff", l.Prefix, i)
			if i == 0 {
				id = l.Prefix + "<b>"
			}
			if i == 0 && l.After != "" || i > 0 && id <= l.After {
				continue
			}
			if !yield(id, nil) {
				return
			}
		}
	}
}

func (f *fake) Reminded(_ context.Context, kind string, limit int) iter.Seq2[admin.Reminded, error] {
	f.reminders.Add(1)
	return func(yield func(admin.Reminded, error) bool) {
		n := map[string]int{"Cart": 5, "Many": 2000}[kind]
		if n == 0 {
			yield(admin.Reminded{}, fmt.Errorf("%s has no reminders", kind))
		}
		for i := range min(n, limit) {
			if !yield(admin.Reminded{ID: fmt.Sprint(i), Due: time.Now().Add(time.Duration(i-2) * 20 * time.Minute)}, nil) {
				return
			}
		}
	}
}

func (f *fake) events() eventReader { return f }

func (f *fake) Next(context.Context) (events []admin.Event, err error) {
	for range 3 {
		events = append(events, admin.Event{Node: n1, Line: admin.Line{Text: fmt.Sprint("line ", f.lines.Add(1)), Attrs: "kind=Cart entity=ann"}})
	}
	return events, nil
}

// get asks a handler, and decodes its answer.
func get[T any](t *testing.T, h http.Handler, path string) (answer T) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer
}

func TestViewersShareTheQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := newHandler(f, Options{Cluster: "shop"})
		require.Zero(t, f.asked.Load(), "somebody asked before anybody looked")
		var viewers sync.WaitGroup
		for range 10 {
			viewers.Go(func() {
				for range 60 {
					get[snapshot](t, h, "/api/cluster")
					time.Sleep(time.Second)
				}
			})
		}
		viewers.Wait()
		require.InDelta(t, 60, f.asked.Load(), 10, "questions of ten viewers in a minute")
		require.InDelta(t, 12, f.shards.Load(), 2, "questions for the shards")
		asked := f.asked.Load()
		time.Sleep(time.Hour)
		require.Equal(t, asked, f.asked.Load(), "the cluster is asked though nobody looks")
	})
}

func TestCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := newHandler(f, Options{Cluster: "shop"})
		c := get[snapshot](t, h, "/api/cluster")
		require.Equal(t, []string{"n1", "n2", "n2"}, []string{c.SeenBy, c.Coordinator, c.Members[1].Name})
		require.Equal(t, "silent", c.Members[1].Evidence)
		require.Equal(t, []typeRow{{Name: "Cart", Shards: 4, Homeless: 1, Waiting: 3, Entities: 4, Active: 1, Instances: 4, Wanted: 5, Durable: true, Used: 0.25}, {Name: "Chief"}, {Name: "Many"}}, c.Types)
		require.Equal(t, moveRow{"Cart", 5, "n1", "n2", "fewer shards", "the state is sent", 3}, c.Moves[0])
		require.Equal(t, map[string]uint64{"refused": 5}, c.Counters)
		require.Equal(t, "rebalancing is paused by ann since 1970-01-01T00:01:00Z", c.Paused)
		require.Contains(t, strings.Join(c.Health.Notes, "\n"), c.Paused)
		require.False(t, c.Health.Healthy)
		require.Contains(t, c.Health.Wrong, "n1: the store is full", "a member's own finding")
		require.Equal(t, shardMap{Type: "Cart", First: 4, Homes: []int16{0, 0, 1, -1}, Moving: []uint32{5, 5}, Used: []float64{0.25, 0, 0, 0}, Entities: []uint32{3, 0, 1, 0}}, get[shardMap](t, h, "/api/shards?type=Cart"))
		require.Equal(t, shardMap{Type: "Boat", Homes: []int16{}, Moving: []uint32{}, Used: []float64{}, Entities: []uint32{}}, get[shardMap](t, h, "/api/shards?type=Boat"))

		// A page asks for what is new.
		require.Len(t, c.Events, 3)
		time.Sleep(2 * time.Second)
		c = get[snapshot](t, h, fmt.Sprint("/api/cluster?after=", c.Events[2].Number))
		require.Equal(t, "line 4", c.Events[0].Text)
		require.Len(t, c.Events, 3)
		require.Len(t, get[snapshot](t, h, "/api/cluster").Events, 6)
		require.Empty(t, get[snapshot](t, h, "/api/cluster?after=18446744073709551615").Events)

		// What was known stays while the cluster does not answer.
		err := errors.New("no process of this cluster answers")
		f.failed.Store(&err)
		time.Sleep(2 * time.Second)
		c = get[snapshot](t, h, "/api/cluster")
		require.Equal(t, err.Error(), c.Error)
		require.Len(t, c.Members, 2)
		require.Len(t, c.Health.Wrong, 1)
		require.Contains(t, c.Health.Wrong[0], err.Error())
		f.failed.Store(nil)
		time.Sleep(2 * time.Second)
		require.Empty(t, get[snapshot](t, h, "/api/cluster").Error)
	})
}

func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(&fake{}, Options{})
		for range eventsKept {
			get[snapshot](t, h, "/api/cluster?after=18446744073709551615")
			time.Sleep(2 * time.Second)
		}
		events := get[snapshot](t, h, "/api/cluster").Events
		require.Len(t, events, eventsKept)
		require.Equal(t, fmt.Sprint("line ", 3*(eventsKept+1)), events[eventsKept-1].Text)
	})
}

func TestEntity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		log := slog.New(slog.NewTextHandler(&lines, nil))
		without, with := newHandler(&fake{}, Options{Logger: log}), newHandler(&fake{}, Options{Logger: log, State: func(r *http.Request) bool { return r.Header.Get("User") != "bob" }})
		story := get[entityStory](t, without, "/api/entity?type=Cart&id=ann")
		require.Equal(t, []any{"n1", "1.1", "", ""}, []any{story.Node, story.Epoch, story.State, story.NoState})
		require.Len(t, story.Events, 3)
		require.Empty(t, lines.String())
		story = get[entityStory](t, with, "/api/entity?type=Cart&id=ann")
		require.Equal(t, "{\n  \"Total\": 9007199254740993\n}", story.State)
		require.Contains(t, lines.String(), "kind=Cart entity=ann to=192.0.2.1")
		lines.Reset()
		w := httptest.NewRecorder()
		asBob := httptest.NewRequest(http.MethodGet, "/api/entity?type=Cart&id=ann", nil)
		asBob.Header.Set("User", "bob")
		with.ServeHTTP(w, asBob)
		require.NotContains(t, w.Body.String(), "Total", "bob may not see state")
		require.Empty(t, lines.String())
		story = get[entityStory](t, with, "/api/entity?type=Cart&id=hung")
		require.Equal(t, &clusterview.RunningTurn{Type: "Cart", ID: "hung", Method: "Add", From: "client web", Node: "n1", Seconds: 3}, story.Runs)
		require.Equal(t, []any{uint32(7), "", "it is shown when no turn is under way"}, []any{story.Mailbox, story.State, story.NoState})
		require.Empty(t, lines.String(), "no state was shown")
		require.Contains(t, get[entityStory](t, with, "/api/entity?type=Boat&id=ann").Error, "no member hosts Boat")
		w = httptest.NewRecorder()
		with.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/entity?type=Cart", nil))
		require.Equal(t, http.StatusBadRequest, w.Code)
	})
}

func TestSecured(t *testing.T) {
	h := newHandler(&fake{}, Options{})
	for _, path := range []string{"/", "/main.js", "/api/shards?type=Cart", "/nowhere"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'", path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/cluster", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestCompressed(t *testing.T) {
	h := &handler{options: Options{Logger: slog.New(slog.DiscardHandler)}}
	for _, size := range []int{10, gzipFrom} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("Accept-Encoding", "gzip, br")
		want := strings.Repeat("a", size)
		h.send(w, r, want)
		body := w.Body
		if size >= gzipFrom {
			require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
			z, err := gzip.NewReader(body)
			require.NoError(t, err)
			body = &bytes.Buffer{}
			_, err = body.ReadFrom(z)
			require.NoError(t, err)
		}
		var got string
		require.NoError(t, json.Unmarshal(body.Bytes(), &got))
		require.Equal(t, want, got)
	}
}

// TestPageIsWhole: the page loads nothing from elsewhere, and all that it loads is there.
func TestPageIsWhole(t *testing.T) {
	files, err := fs.Glob(page, "page/*")
	require.NoError(t, err)
	loads := regexp.MustCompile(`(?:src|href|from)[ =]["']([^"'#$]+)["']`)
	for _, name := range files {
		text, err := fs.ReadFile(page, name)
		require.NoError(t, err)
		for _, m := range loads.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "data:") {
				continue
			}
			_, err := fs.Stat(page, "page/"+strings.TrimPrefix(m[1], "./"))
			require.NoError(t, err, "%s loads %s", name, m[1])
		}
		require.NotContains(t, string(text), "innerHTML", name)
	}
}

// TestFirstQuestionFails: before the members have answered once, the page gets empty lists, not
// null.
func TestFirstQuestionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		err := errors.New("nobody answers")
		f.failed.Store(&err)
		b, err := json.Marshal(newCollector(f, "shop").look(t.Context()))
		require.NoError(t, err)
		for _, list := range []string{"members", "types", "singletons", "moves", "events", "expiries"} {
			require.NotContains(t, string(b), fmt.Sprintf(`"%s":null`, list))
		}
	})
}
