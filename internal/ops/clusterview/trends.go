package clusterview

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/admin"
)

// trendMinutes is the number of minutes in Trends.
const trendMinutes = 60

// Trends are the last hour of a cluster in minutes, the oldest first, in the JSON of the dashboard.
type Trends struct {
	Minutes []int64             `json:"minutes"` // the start of each, in seconds after 1970
	All     *Trend              `json:"all"`
	Types   map[string]*Trend   `json:"types"`
	Members map[string]*Process `json:"members"`
}

// A Trend has a value for each minute; nil means that no member has one.
type Trend struct {
	Rate   []*float64 `json:"rate"`   // turns a second
	Failed []*float64 `json:"failed"` // turns a second that failed
	P50    []*float64 `json:"p50_seconds"`
	P99    []*float64 `json:"p99_seconds"`
	Commit []*float64 `json:"commit_p99_seconds"` // the wait of answers for the store
}

// A Process has the values of one member.
type Process struct {
	Rate   []*float64 `json:"rate"`
	Used   []*float64 `json:"used"`   // processors
	Memory []*float64 `json:"memory"` // bytes
}

// A sums adds up the turns of all members in a minute.
type sums struct {
	rate, failed  float64
	took, commits []operator.Bucket
}

func (s *sums) add(t *admin.TypeMinute, seconds float64) {
	s.rate += float64(t.Turns()) / seconds
	s.failed += float64(t.Failed) / seconds
	s.took, s.commits = append(s.took, t.Took...), append(s.commits, t.Commits...)
}

func (t *Trend) set(i int, s *sums) {
	t.Rate[i], t.Failed[i] = &s.rate, &s.failed
	for to, q := range map[*[]*float64]float64{&t.P50: 0.5, &t.P99: 0.99} { //arch:order-free each is set by itself
		(*to)[i] = quantile(s.took, q)
	}
	t.Commit[i] = quantile(s.commits, 0.99)
}

func quantile(all []operator.Bucket, share float64) *float64 {
	if len(all) == 0 {
		return nil
	}
	return new(operator.Quantile(all, share).Seconds())
}

func newTrend() *Trend {
	empty := func() []*float64 { return make([]*float64, trendMinutes) }
	return &Trend{empty(), empty(), empty(), empty(), empty()}
}

// TrendsOf adds up the minutes of all members; the keys of members are their names. The last minute
// of the result contains now.
func TrendsOf(now time.Time, members map[string][]admin.Minute) Trends {
	t := Trends{Minutes: make([]int64, trendMinutes), All: newTrend(), Types: map[string]*Trend{}, Members: map[string]*Process{}}
	first := now.UTC().Truncate(time.Minute).Add(-(trendMinutes - 1) * time.Minute)
	all, types := make([]*sums, trendMinutes), map[string][]*sums{}
	at := func(row []*sums, i int) *sums {
		if row[i] == nil {
			row[i] = &sums{}
		}
		return row[i]
	}
	for name, minutes := range members { //arch:order-free they are added
		own := &Process{make([]*float64, trendMinutes), make([]*float64, trendMinutes), make([]*float64, trendMinutes)}
		t.Members[name] = own
		for _, m := range minutes {
			i, seconds := int(m.At.Sub(first)/time.Minute), m.Lasted.Seconds()
			if m.At.Before(first) || i >= trendMinutes || seconds <= 0 {
				continue
			}
			rate := 0.0
			whole := at(all, i)
			for _, y := range m.Types {
				whole.add(&y, seconds)
				rate += float64(y.Turns()) / seconds
				if types[y.Kind] == nil {
					types[y.Kind] = make([]*sums, trendMinutes)
				}
				at(types[y.Kind], i).add(&y, seconds)
			}
			own.Rate[i], own.Used[i], own.Memory[i] = &rate, &m.Used, new(float64(m.Memory))
		}
	}
	for i := range t.Minutes {
		t.Minutes[i] = first.Add(time.Duration(i) * time.Minute).Unix()
		if all[i] == nil {
			continue
		}
		t.All.set(i, all[i])
		for kind, row := range types { //arch:order-free each is set by itself
			if t.Types[kind] == nil {
				t.Types[kind] = newTrend()
			}
			t.Types[kind].set(i, at(row, i))
		}
	}
	return t
}

// KeepMinutes merges two lists of one member's minutes. have is from earlier answers, and got from
// a later answer. If both lists have the same minute, the minute of got is kept. Minutes that begin
// before the time from are dropped.
func KeepMinutes(have, got []admin.Minute, from time.Time) (all []admin.Minute) {
	for _, m := range slices.Concat(have, got) {
		if m.At.Before(from) {
			continue
		}
		if i := slices.IndexFunc(all, func(o admin.Minute) bool { return o.At.Equal(m.At) }); i >= 0 {
			all[i] = m
			continue
		}
		all = append(all, m)
	}
	return all
}
