package clusterview

import (
	"cmp"
	"slices"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/admin"
)

// Rates are the turns of a cluster over an interval, in the JSON that operators read: later
// versions may add fields, but never change one. All rates are per second. Those of entities and
// callers come from a sample of the last 5 to 10 s.
type (
	Rates struct {
		Cluster  string            `json:"cluster"`
		Seconds  float64           `json:"seconds"`
		Types    []TypeRate        `json:"types"`
		Methods  []MethodRate      `json:"methods"`
		Entities []EntityRate      `json:"entities"`
		Callers  []CallerRate      `json:"callers"`
		Running  []RunningTurn     `json:"running"`
		Nodes    []NodeRate        `json:"nodes"`
		Silent   map[string]string `json:"silent,omitempty"` // why a member did not answer
	}
	MethodRate struct {
		Type    string  `json:"type"`
		Method  string  `json:"method"`
		Rate    float64 `json:"rate"`
		Failed  float64 `json:"failed"`
		Mean    float64 `json:"mean_seconds"` // of a turn
		Longest float64 `json:"longest_seconds"`
		turns   float64
	}
	// TypeRate is the sum of the rates of a type's methods.
	TypeRate struct {
		Type    string  `json:"type"`
		Rate    float64 `json:"rate"`
		Failed  float64 `json:"failed"`
		Mean    float64 `json:"mean_seconds"` // of a turn
		P99     float64 `json:"p99_seconds"`  // at most an eighth too high; 0 means no turn has ended, or the members are older
		Longest float64 `json:"longest_seconds"`
	}
	EntityRate struct {
		Type string  `json:"type"`
		ID   string  `json:"id"`
		Node string  `json:"node"`
		Rate float64 `json:"rate"`
		Busy float64 `json:"busy"` // share of the time in which a turn ran
	}
	CallerRate struct {
		From string  `json:"from"`
		Type string  `json:"type"`
		ID   string  `json:"id"`
		Rate float64 `json:"rate"`
	}
	RunningTurn struct {
		Type    string  `json:"type"`
		ID      string  `json:"id"`
		Method  string  `json:"method"`
		From    string  `json:"from"`
		Node    string  `json:"node"`
		Seconds float64 `json:"seconds"` // since it began
	}
	NodeRate struct {
		Node string  `json:"node"`
		Rate float64 `json:"rate"`
		Busy float64 `json:"busy"` // number of turns that ran at a time, on average
	}
)

// newTurns returns the turns of a method between two answers of a member. was is the method in the
// earlier answer, now the method in the later one.
func newTurns(now, was admin.MethodTurns) admin.MethodTurns {
	before := map[uint32]uint64{}
	for _, b := range was.Took {
		before[b.Number] = b.Turns
	}
	now.Failed -= min(now.Failed, was.Failed)
	now.Took = slices.Clone(now.Took)
	for i := range now.Took {
		b := &now.Took[i]
		b.Turns -= min(b.Turns, before[b.Number])
	}
	now.Took = slices.DeleteFunc(now.Took, func(b operator.Bucket) bool { return b.Turns == 0 })
	return now
}

// RatesBetween returns the rates between two answers of each member, before and after.
func RatesBetween(cluster string, before, after []admin.NodeTurns) Rates {
	top := Rates{
		Cluster: cluster, Types: []TypeRate{}, Methods: []MethodRate{}, Entities: []EntityRate{}, Callers: []CallerRate{}, Running: []RunningTurn{}, Nodes: []NodeRate{},
		Silent: map[string]string{},
	}
	methods := map[[2]string]*MethodRate{}
	latencies := map[string][]operator.Bucket{} // of the turns between the answers, by type
	for _, n := range after {
		if n.Err != nil {
			top.Silent[n.Node.String()] = n.Err.Error()
			continue
		}
		var was admin.Turns
		if i := slices.IndexFunc(before, func(b admin.NodeTurns) bool { return b.Node == n.Node }); i >= 0 && before[i].Turns.Lasted < n.Turns.Lasted {
			was = before[i].Turns
		}
		seconds := (n.Turns.Lasted - was.Lasted).Seconds()
		if seconds <= 0 {
			continue
		}
		top.Seconds = max(top.Seconds, seconds)
		top.add(methods, latencies, n, was, seconds)
	}
	for _, m := range methods { //arch:order-free they are sorted
		if m.turns > 0 {
			m.Mean /= m.turns
		}
		top.Methods = append(top.Methods, *m)
	}
	slices.SortFunc(top.Methods, func(a, b MethodRate) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Method, b.Method))
	})
	top.sumTypes(latencies)
	slices.SortFunc(top.Entities, func(a, b EntityRate) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(top.Callers, func(a, b CallerRate) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.From, b.From), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(top.Running, func(a, b RunningTurn) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return top
}

// sumTypes adds up methods by type, the busiest first.
func (t *Rates) sumTypes(latencies map[string][]operator.Bucket) {
	for _, m := range t.Methods {
		i := slices.IndexFunc(t.Types, func(r TypeRate) bool { return r.Type == m.Type })
		if i < 0 {
			i, t.Types = len(t.Types), append(t.Types, TypeRate{Type: m.Type, P99: operator.Quantile(latencies[m.Type], 0.99).Seconds()})
		}
		r := &t.Types[i]
		if sum := r.Rate + m.Rate; sum > 0 {
			r.Mean += (m.Mean - r.Mean) * m.Rate / sum
		}
		r.Rate += m.Rate
		r.Failed += m.Failed
		r.Longest = max(r.Longest, m.Longest)
	}
	slices.SortFunc(t.Types, func(a, b TypeRate) int { return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Type, b.Type)) })
}

func (t *Rates) add(methods map[[2]string]*MethodRate, latencies map[string][]operator.Bucket, n admin.NodeTurns, was admin.Turns, seconds float64) {
	node := NodeRate{Node: n.Node.Name}
	earlier := map[[2]string]admin.MethodTurns{}
	for _, m := range was.Methods {
		earlier[[2]string{m.Kind, m.Method}] = m
	}
	for _, m := range n.Turns.Methods {
		key := [2]string{m.Kind, m.Method}
		m = newTurns(m, earlier[key])
		if len(m.Took) == 0 {
			continue
		}
		r := methods[key]
		if r == nil {
			r = &MethodRate{Type: m.Kind, Method: m.Method}
			methods[key] = r
		}
		turns, busy := float64(m.Turns()), operator.Sum(m.Took).Seconds()
		r.Rate += turns / seconds
		r.Failed += float64(m.Failed) / seconds
		r.Mean += busy
		r.turns += turns
		r.Longest = max(r.Longest, operator.Quantile(m.Took, 1).Seconds())
		latencies[m.Kind] = append(latencies[m.Kind], m.Took...)
		node.Rate += turns / seconds
		node.Busy += busy / seconds
	}
	t.Nodes = append(t.Nodes, node)
	if window := n.Turns.Window.Seconds(); window > 0 {
		for _, e := range n.Turns.Entities {
			t.Entities = append(t.Entities, EntityRate{e.Kind, e.ID, n.Node.Name, float64(e.Turns) / window, e.Busy.Seconds() / window})
		}
		for _, f := range n.Turns.Callers {
			t.Callers = append(t.Callers, CallerRate{f.From, f.To.Kind, f.To.ID, float64(f.Calls) / window})
		}
	}
	for _, r := range n.Turns.Running {
		t.Running = append(t.Running, RunningTurn{r.Kind, r.ID, r.Method, r.From, n.Node.Name, r.For.Seconds()})
	}
}
