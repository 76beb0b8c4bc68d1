package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
)

// The JSON of top. Fields are added, never changed. Rates are per second.
type (
	jsonTop struct {
		Cluster  string            `json:"cluster"`
		Seconds  float64           `json:"seconds"`
		Methods  []methodRate      `json:"methods"`
		Entities []entityRate      `json:"entities"`
		Callers  []callerRate      `json:"callers"`
		Running  []runningTurn     `json:"running"`
		Nodes    []nodeRate        `json:"nodes"`
		Silent   map[string]string `json:"silent,omitempty"` // why a member did not answer
	}
	methodRate struct {
		Type    string  `json:"type"`
		Method  string  `json:"method"`
		Rate    float64 `json:"rate"`
		Failed  float64 `json:"failed"`
		Mean    float64 `json:"mean_seconds"` // of a turn
		Longest float64 `json:"longest_seconds"`
		turns   float64
	}
	entityRate struct {
		Type string  `json:"type"`
		ID   string  `json:"id"`
		Node string  `json:"node"`
		Rate float64 `json:"rate"`
		Busy float64 `json:"busy"` // share of the time in which a turn ran
	}
	callerRate struct {
		From string  `json:"from"`
		Type string  `json:"type"`
		ID   string  `json:"id"`
		Rate float64 `json:"rate"`
	}
	runningTurn struct {
		Type    string  `json:"type"`
		ID      string  `json:"id"`
		Method  string  `json:"method"`
		From    string  `json:"from"`
		Node    string  `json:"node"`
		Seconds float64 `json:"seconds"`
	}
	nodeRate struct {
		Node string  `json:"node"`
		Rate float64 `json:"rate"`
		Busy float64 `json:"busy"` // number of turns that ran at a time, on average
	}
)

// top prints the busiest methods, entities, callers and nodes of some seconds, and with -f again and
// again.
func top(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	before, err := c.Turns(ctx) // the members begin to count
	if err != nil {
		return err
	}
	for {
		select {
		case <-time.After(o.every):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after, err := c.Turns(ctx)
		switch {
		case err != nil && ctx.Err() != nil && o.follow:
			return nil // it was told to end
		case err != nil:
			return err
		}
		if err := printTop(w, o, rates(o.cluster, before, after)); err != nil || !o.follow {
			return err
		}
		before = after
	}
}

// counts are those of a member's earlier answer, by subject.
type counts struct {
	lasted   time.Duration
	methods  map[[2]string]admin.MethodTurns
	entities map[[2]string]admin.BusyEntity
	callers  map[[3]string]admin.BusyCaller
}

func countsOf(t admin.Turns) counts {
	c := counts{t.Lasted, map[[2]string]admin.MethodTurns{}, map[[2]string]admin.BusyEntity{}, map[[3]string]admin.BusyCaller{}}
	for _, m := range t.Methods {
		c.methods[[2]string{m.Kind, m.Method}] = m
	}
	for _, e := range t.Entities {
		c.entities[[2]string{e.Kind, e.ID}] = e
	}
	for _, f := range t.Callers {
		c.callers[[3]string{f.From, f.To.Kind, f.To.ID}] = f
	}
	return c
}

// rates returns the rates between two answers of each member.
func rates(cluster string, before, after []admin.NodeTurns) jsonTop {
	top := jsonTop{
		Cluster: cluster, Methods: []methodRate{}, Entities: []entityRate{}, Callers: []callerRate{}, Running: []runningTurn{}, Nodes: []nodeRate{},
		Silent: map[string]string{},
	}
	methods := map[[2]string]*methodRate{}
	for _, n := range after {
		if n.Err != nil {
			top.Silent[n.Node.String()] = n.Err.Error()
			continue
		}
		was := countsOf(admin.Turns{})
		if i := slices.IndexFunc(before, func(b admin.NodeTurns) bool { return b.Node == n.Node }); i >= 0 && before[i].Turns.Lasted < n.Turns.Lasted {
			was = countsOf(before[i].Turns)
		}
		seconds := (n.Turns.Lasted - was.lasted).Seconds()
		if seconds <= 0 {
			continue
		}
		top.Seconds = max(top.Seconds, seconds)
		top.add(methods, n, was, seconds)
	}
	for _, m := range methods { //arch:order-free they are sorted
		if m.turns > 0 {
			m.Mean /= m.turns
		}
		top.Methods = append(top.Methods, *m)
	}
	slices.SortFunc(top.Methods, func(a, b methodRate) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Method, b.Method))
	})
	slices.SortFunc(top.Entities, func(a, b entityRate) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(top.Callers, func(a, b callerRate) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.From, b.From), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(top.Running, func(a, b runningTurn) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return top
}

// add adds the counts of one member since its earlier answer.
func (t *jsonTop) add(methods map[[2]string]*methodRate, n admin.NodeTurns, was counts, seconds float64) {
	node := nodeRate{Node: n.Node.Name}
	for _, m := range n.Turns.Methods {
		key := [2]string{m.Kind, m.Method}
		earlier := was.methods[key]
		turns, failed, busy := m.Turns-earlier.Turns, m.Failed-earlier.Failed, m.Busy-earlier.Busy
		if turns == 0 && failed == 0 {
			continue
		}
		r := methods[key]
		if r == nil {
			r = &methodRate{Type: m.Kind, Method: m.Method}
			methods[key] = r
		}
		r.Rate += float64(turns) / seconds
		r.Failed += float64(failed) / seconds
		r.Mean += busy.Seconds()
		r.turns += float64(turns)
		r.Longest = max(r.Longest, m.Longest.Seconds())
		node.Rate += float64(turns) / seconds
		node.Busy += busy.Seconds() / seconds
	}
	t.Nodes = append(t.Nodes, node)
	for _, e := range n.Turns.Entities {
		earlier := was.entities[[2]string{e.Kind, e.ID}]
		if e.Turns > earlier.Turns {
			busy := max(0, e.Busy-earlier.Busy)
			t.Entities = append(t.Entities, entityRate{e.Kind, e.ID, n.Node.Name, float64(e.Turns-earlier.Turns) / seconds, busy.Seconds() / seconds})
		}
	}
	for _, f := range n.Turns.Callers {
		if earlier := was.callers[[3]string{f.From, f.To.Kind, f.To.ID}]; f.Calls > earlier.Calls {
			t.Callers = append(t.Callers, callerRate{f.From, f.To.Kind, f.To.ID, float64(f.Calls-earlier.Calls) / seconds})
		}
	}
	for _, r := range n.Turns.Running {
		t.Running = append(t.Running, runningTurn{r.Kind, r.ID, r.Method, r.From, n.Node.Name, r.For.Seconds()})
	}
}

// longRunning is how long a turn runs before top shows it.
const longRunning = 0.1

func printTop(w io.Writer, o *options, top jsonTop) error {
	if o.json {
		return printJSON(w, top)
	}
	if o.follow {
		fmt.Fprint(w, "\x1b[H\x1b[2J") // the cursor to the top, and the screen cleared
	}
	fmt.Fprintf(w, "%s, %.1f s\n\n", top.Cluster, top.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tTURNS/S\tRUNNING AT A TIME")
	for _, n := range top.Nodes {
		fmt.Fprintf(t, "%s\t%.1f\t%.2f\n", n.Node, n.Rate, n.Busy)
	}
	fmt.Fprintln(t, "\t\t\nMETHOD\tTURNS/S\tFAILED/S\tMEAN\tLONGEST")
	for _, m := range top.Methods[:min(o.rows, len(top.Methods))] {
		fmt.Fprintf(t, "%s.%s\t%.1f\t%.1f\t%v\t%v\n", m.Type, m.Method, m.Rate, m.Failed, short(m.Mean), short(m.Longest))
	}
	fmt.Fprintln(t, "\t\t\nENTITY\tTURNS/S\tBUSY\tNODE")
	for _, e := range top.Entities[:min(o.rows, len(top.Entities))] {
		fmt.Fprintf(t, "%s/%s\t%.1f\t%.0f%%\t%s\n", e.Type, e.ID, e.Rate, 100*e.Busy, e.Node)
	}
	fmt.Fprintln(t, "\t\t\nCALLER\tCALLS/S\tOF")
	for _, c := range top.Callers[:min(o.rows, len(top.Callers))] {
		fmt.Fprintf(t, "%s\t%.1f\t%s/%s\n", c.From, c.Rate, c.Type, c.ID)
	}
	shown := slices.DeleteFunc(slices.Clone(top.Running), func(r runningTurn) bool { return r.Seconds < longRunning })
	if len(shown) > 0 {
		fmt.Fprintln(t, "\t\t\nTURN THAT RUNS\tFOR\tCALLED BY")
	}
	for _, r := range shown[:min(o.rows, len(shown))] {
		fmt.Fprintf(t, "%s/%s.%s\t%v\t%s\n", r.Type, r.ID, r.Method, short(r.Seconds), r.From)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(top.Silent) > 0 {
		return fmt.Errorf("cluster %s: not all members have answered: %v", o.cluster, sortedKeys(top.Silent))
	}
	return nil
}

// short is a number of seconds for people.
func short(seconds float64) time.Duration {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}
