package listing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardgen/shardgen/internal/wire"
)

// shards are the ids of a type, by shard.
type shards struct {
	mu    sync.Mutex
	ids   [][]string
	asked int // number of requests
	under atomic.Int64
	most  int64
	fails error // the answer of the last shard
}

func shardsOf(n int, ids ...string) *shards {
	s := &shards{ids: make([][]string, n)}
	for i, id := range ids {
		s.ids[i%n] = append(s.ids[i%n], id)
	}
	return s
}

func (s *shards) ask(_ context.Context, shard int, request []byte) ([]byte, error) {
	under := s.under.Add(1)
	defer s.under.Add(-1)
	r, err := wire.ParseListRequest(request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.most = max(s.most, under)
	if s.fails != nil && shard == len(s.ids)-1 {
		return nil, s.fails
	}
	most, size := Limits(&r, 1<<20)
	ids, more := Best(slices.Values(s.ids[shard]), &r, most)
	ids, more = Fit(ids, more, size)
	return wire.AppendListPage(nil, ids, more), nil
}

func (s *shards) list(ctx context.Context, r wire.ListRequest) (ids []string, err error) {
	l := Lister{Kind: "T", Shards: len(s.ids), Ask: s.ask, Remedy: " (list again)"}
	for id, err := range l.List(ctx, r) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func numbered(n int, format string) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf(format, i))
	}
	return ids
}

func TestList(t *testing.T) {
	long := strings.Repeat("x", 1000)
	tests := []struct {
		name    string
		shards  int
		ids     []string
		request wire.ListRequest
		want    func(id string) bool // nil: all
	}{
		{name: "nothing", shards: 64},
		{name: "one", shards: 64, ids: []string{"a"}},
		{name: "one shard", shards: 1, ids: numbered(5000, "%d")},
		{name: "many shards", shards: 4096, ids: numbered(20_000, "%x")},
		{name: "all bytes", shards: 8, ids: []string{"\x00", "\x00\x00", "a", "a\x00", "\xff", "\xff\xff", "ü"}},
		{name: "long ids", shards: 2048, ids: numbered(6000, long+"%d")},
		{
			name: "prefix", shards: 16, ids: append(numbered(3000, "de-%d"), numbered(3000, "en-%d")...), request: wire.ListRequest{Prefix: "de-"},
			want: func(id string) bool { return strings.HasPrefix(id, "de-") },
		},
		{
			name: "prefix of one", shards: 16, ids: numbered(100, "%d"), request: wire.ListRequest{Prefix: "99"},
			want: func(id string) bool { return id == "99" },
		},
		{
			name: "prefix of none", shards: 16, ids: numbered(100, "%d"), request: wire.ListRequest{Prefix: "x"},
			want: func(string) bool { return false },
		},
		{
			name: "prefix of bytes", shards: 4, ids: []string{"\xff", "\xff\xff", "\xff\xff\x00", "\xfe"}, request: wire.ListRequest{Prefix: "\xff\xff"},
			want: func(id string) bool { return strings.HasPrefix(id, "\xff\xff") },
		},
		{
			name: "after", shards: 16, ids: numbered(3000, "%d"), request: wire.ListRequest{After: "2"},
			want: func(id string) bool { return id > "2" },
		},
		{
			name: "after what is not there", shards: 16, ids: numbered(3000, "%d"), request: wire.ListRequest{After: "15x"},
			want: func(id string) bool { return id > "15x" },
		},
		{
			name: "after the last", shards: 16, ids: numbered(3000, "%d"), request: wire.ListRequest{After: "999"},
			want: func(string) bool { return false },
		},
		{
			name: "after and prefix", shards: 16, ids: numbered(3000, "de-%d"), request: wire.ListRequest{Prefix: "de-1", After: "de-10"},
			want: func(id string) bool { return strings.HasPrefix(id, "de-1") && id > "de-10" },
		},
		{
			name: "after, below the prefix", shards: 16, ids: numbered(300, "%d"), request: wire.ListRequest{Prefix: "2", After: "1"},
			want: func(id string) bool { return strings.HasPrefix(id, "2") },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := shardsOf(test.shards, test.ids...)
			var want []string
			for _, id := range test.ids {
				if test.want == nil || test.want(id) {
					want = append(want, id)
				}
			}
			slices.Sort(want)
			got, err := s.list(t.Context(), test.request)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%d ids, %v, want %d", len(got), err, len(want))
			}
			if s.most > atOnce {
				t.Errorf("%d requests were under way, want at most %d", s.most, atOnce)
			}
		})
	}
}

// TestListMeanwhile: ids that exist during the whole listing come once and in order, while other
// ids come and go.
func TestListMeanwhile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	stay := numbered(20_000, "%05d")
	s := shardsOf(8, stay...)
	change := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for range 50 {
			i := random.IntN(len(s.ids))
			if id := fmt.Sprintf("%05d-%d", random.IntN(20_000), random.IntN(5)); random.IntN(2) == 0 {
				s.ids[i] = append(s.ids[i], id)
			} else {
				s.ids[i] = slices.DeleteFunc(s.ids[i], func(o string) bool { return o == id })
			}
		}
	}
	var got []string
	last := ""
	l := Lister{Kind: "T", Shards: 8, Ask: s.ask}
	for id, err := range l.List(t.Context(), wire.ListRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		if id < last {
			t.Fatalf("%q comes after %q", id, last)
		}
		if last = id; len(id) == 5 {
			got = append(got, id)
		}
		if len(got)%500 == 0 {
			change()
		}
	}
	if !slices.Equal(got, stay) {
		t.Errorf("%d ids that were there throughout, want %d", len(got), len(stay))
	}
}

func TestListEndsEarly(t *testing.T) {
	s := shardsOf(64, numbered(200_000, "%d")...)
	l := Lister{Kind: "T", Shards: 64, Ask: s.ask}
	for id, err := range l.List(t.Context(), wire.ListRequest{}) {
		if id != "0" || err != nil {
			t.Errorf("got %q, %v, want 0", id, err)
		}
		break
	}
	if s.asked > 64+atOnce {
		t.Errorf("%d requests for the first id", s.asked)
	}
	if n := s.under.Load(); n != 0 {
		t.Errorf("%d requests are under way after the end", n)
	}
}

func TestListFails(t *testing.T) {
	lost := errors.New("lost")
	s := shardsOf(4, numbered(100, "%d")...)
	s.fails = lost
	ids, err := s.list(t.Context(), wire.ListRequest{})
	if want := "list T: shard 7 did not answer: lost (list again)"; !errors.Is(err, lost) || err.Error() != want || len(ids) > 0 {
		t.Errorf("got %v, %v, want no id and %s", ids, err, want)
	}
	l := Lister{Kind: "T", Shards: 1, Ask: func(context.Context, int, []byte) ([]byte, error) {
		return wire.AppendListPage(nil, []string{"b", "a"}, false), nil
	}}
	for _, err := range l.List(t.Context(), wire.ListRequest{}) {
		if err == nil || !strings.Contains(err.Error(), "shard 1") {
			t.Errorf("got %v, want an error about the order of shard 1", err)
		}
	}
}

func TestListCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := shardsOf(4, numbered(100_000, "%d")...)
	n := 0
	l := Lister{Kind: "T", Shards: 4, Ask: s.ask}
	var last error
	for _, err := range l.List(ctx, wire.ListRequest{}) {
		if n++; n == 10 {
			cancel()
		}
		last = err
	}
	if n != 11 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d steps, the last with %v, want 11 and context.Canceled", n, last)
	}

	waits := Lister{Kind: "T", Shards: 4, Ask: func(ctx context.Context, _ int, _ []byte) ([]byte, error) {
		cancelNow(ctx)
		return nil, ctx.Err()
	}}
	ctx, cancel = context.WithCancel(context.WithValue(t.Context(), cancelKey{}, func() { cancel() }))
	defer cancel()
	for _, err := range waits.List(ctx, wire.ListRequest{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	}
}

type cancelKey struct{}

func cancelNow(ctx context.Context) {
	ctx.Value(cancelKey{}).(func())()
	<-ctx.Done()
}

// TestListHolds: the pages that a lister may hold at once take about 4 MiB.
func TestListHolds(t *testing.T) {
	for shards := 1; shards <= 1<<16; shards *= 2 {
		m := newMerge(&Lister{Shards: shards}, wire.ListRequest{})
		pages := shards
		if m.ahead {
			pages *= 2
		}
		if got := pages * int(m.request.Bytes); got > held || m.request.Bytes == 0 {
			t.Errorf("%d shards: %d pages of %d bytes, want at most %d bytes", shards, pages, m.request.Bytes, held)
		}
	}
}

func TestBest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n, limit := random.IntN(60), 1+random.IntN(20)
		r := &wire.ListRequest{After: fmt.Sprint(random.IntN(70))}
		if random.IntN(2) == 0 {
			r.Prefix = fmt.Sprint(random.IntN(10))
		}
		all := numbered(n, "%d")
		random.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		ids, more := Best(slices.Values(all), r, limit)
		slices.Sort(all)
		want := slices.DeleteFunc(all, func(id string) bool { return id <= r.After || !strings.HasPrefix(id, r.Prefix) })
		wantMore := len(want) > limit
		want = want[:min(limit, len(want))]
		if !slices.Equal(ids, want) || more != wantMore {
			t.Fatalf("%d ids, limit %d, %+v: got %q, %v, want %q, %v", n, limit, r, ids, more, want, wantMore)
		}
	}
}

func TestFit(t *testing.T) {
	ids := []string{"aaaa", "bbbb", "cccc"} // 6 bytes each as encoded
	for _, test := range []struct {
		size int
		more bool
		want int
	}{{0, false, 1}, {8, false, 1}, {13, false, 1}, {14, false, 2}, {20, false, 3}, {20, true, 3}} {
		got, more := Fit(ids, test.more, test.size)
		if wantMore := test.more || test.want < 3; len(got) != test.want || more != wantMore {
			t.Errorf("%d bytes: got %q, %v, want %d ids, %v", test.size, got, more, test.want, wantMore)
		}
		if size := len(wire.AppendListPage(nil, got, more)); size > test.size && len(got) > 1 {
			t.Errorf("%d bytes: the page has %d", test.size, size)
		}
	}
}
