package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

// errUnhealthy makes the exit code 1, after the reasons were printed.
var errUnhealthy = errors.New("the cluster is not healthy")

func status(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	h := clusterview.Judge(o.cluster, clusterview.Look(ctx, c))
	var err error
	if o.json {
		err = printJSON(w, h)
	} else {
		err = printHealth(w, h)
	}
	if err == nil && !h.Healthy {
		err = errUnhealthy
	}
	return err
}

func printHealth(w io.Writer, h clusterview.Health) error {
	word := "healthy"
	if !h.Healthy {
		word = "NOT healthy"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s: %d members, %d types, %d shards\n", h.Cluster, word, h.Members, h.Types, h.Shards)
	for _, s := range h.Wrong {
		fmt.Fprintln(&b, "wrong:", s)
	}
	for _, s := range h.Notes {
		fmt.Fprintln(&b, "note: ", s)
	}
	_, err := io.WriteString(w, paint(w, b.String()))
	return err
}

func members(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, viewOf(o.cluster, v))
	}
	return printView(w, o, v)
}

func join(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	var through []string
	if o.through != "" {
		through = strings.Split(o.through, ",")
	}
	node, err := c.Join(ctx, o.node, through...)
	return printDone(w, o, node, "is up", err)
}

func leave(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	node, err := c.Leave(ctx, o.node)
	return printDone(w, o, node, "has left", err)
}

func down(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	node, err := c.Down(ctx, o.node, o.force)
	return printDone(w, o, node, "is down", err)
}

func printView(w io.Writer, o *options, v admin.View) error {
	header := []string{"NODE", "STATUS", "AGE", "REACHABLE", "ROLES", "HOSTS"}
	if v.Table != 0 {
		header = append(header, "SUSPECTED BY", "ALIVE")
	}
	if o.wide {
		header = append(header, "INCARNATION")
	}
	t := tableOf(o, header...)
	for _, m := range v.Members {
		reachable := "yes"
		if !m.Reachable {
			reachable = "no: " + m.Evidence
		}
		status := m.Status.String()
		if m.Address == v.Leader {
			status += " (leader)"
		}
		cells := []any{m.Name, status, age(m.Age), reachable, list(m.Roles), list(m.Hosts)}
		if v.Table != 0 {
			cells = append(cells, suspicions(m.Suspicions), ago(m.Alive))
		}
		if o.wide {
			cells = append(cells, fmt.Sprintf("%016x", m.Incarnation))
		}
		t.row(cells...)
	}
	if err := t.print(w); err != nil {
		return err
	}
	if err := printSingletons(w, o, v); err != nil {
		return err
	}
	state := "all members agree"
	if !v.Converged {
		state = "the members do not agree yet: " + v.Why
	}
	table := ""
	if v.Table != 0 {
		table = fmt.Sprintf("membership table at version %d; the health of %s is %d (0 is healthy, 8 the worst)\n", v.Table, clipMiddle(v.Self.Name, 24), v.Health)
	}
	_, err := fmt.Fprintf(w, "%d members, as %s sees them; %s\n%s%s", len(v.Members), clipMiddle(v.Self.Name, 24), state, table, pausedSince(v.Pause))
	return err
}

// suspicions lists who voted a member dead, and how long ago.
func suspicions(all []admin.Suspicion) string {
	var by []string
	for _, s := range all {
		by = append(by, fmt.Sprintf("%s (%s)", s.By, ago(s.At)))
	}
	return list(by)
}

// ago returns t's age by this host's clock.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return time.Since(t).Round(time.Second).String() + " ago"
}

func printSingletons(w io.Writer, o *options, v admin.View) error {
	if len(v.Singletons) == 0 {
		return nil
	}
	t := tableOf(o, "SINGLETON", "RUNS AT", "MAY RUN AT")
	for _, s := range v.Singletons {
		at := s.Node.Name
		if s.Node.IsZero() {
			at = "nowhere: " + s.Why
		}
		t.row(s.Kind, at, list(namesOf(s.Hosts)))
	}
	_, err := fmt.Fprintln(w)
	return orErr(err, t.print(w))
}

func age(n uint32) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func namesOf(nodes []transport.Address) []string {
	names := []string{}
	for _, a := range nodes {
		names = append(names, a.Name)
	}
	return names
}

func list(words []string) string {
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ",")
}

// The output of members -json. Fields are added, never changed.
type (
	jsonView struct {
		Cluster     string       `json:"cluster"`
		SeenBy      string       `json:"seen_by"`
		Leader      string       `json:"leader,omitempty"`
		Coordinator string       `json:"coordinator,omitempty"`
		Founder     string       `json:"founder"`
		Converged   bool         `json:"converged"`
		Why         string       `json:"why,omitempty"`
		Members     []jsonMember `json:"members"`
		// Singletons is empty if the member SeenBy runs a version that does not report them.
		Singletons []jsonSingleton `json:"singletons"`
		Pause      *jsonPause      `json:"pause,omitempty"` // of rebalancing
		// Table is the version of the membership table, and Health the score of the member SeenBy.
		// Both are 0 without a table.
		Table  uint64 `json:"table,omitempty"`
		Health int    `json:"health,omitempty"`
	}
	jsonSuspicion struct {
		By string    `json:"by"`
		At time.Time `json:"at"`
	}
	jsonSingleton struct {
		Name  string   `json:"name"`
		Node  string   `json:"node,omitempty"` // name#incarnation
		Why   string   `json:"why,omitempty"`  // there is no node
		Hosts []string `json:"hosts"`          // name#incarnation, the oldest first
	}
	jsonMember struct {
		Name        string   `json:"name"`
		Incarnation string   `json:"incarnation"`
		Status      string   `json:"status"`
		Age         uint32   `json:"age"`
		Reachable   bool     `json:"reachable"`
		Evidence    string   `json:"evidence,omitempty"`
		Roles       []string `json:"roles"`
		Hosts       []string `json:"hosts"`
		// Suspicions and Alive come from the member's row in the membership table.
		Suspicions []jsonSuspicion `json:"suspicions,omitempty"`
		Alive      *time.Time      `json:"alive,omitempty"`
	}
)

func viewOf(cluster string, v admin.View) jsonView {
	j := jsonView{
		Cluster: cluster, SeenBy: v.Self.String(), Founder: v.Founder.String(), Converged: v.Converged, Why: v.Why,
		Members: []jsonMember{}, Singletons: []jsonSingleton{}, Pause: pauseOf(v), Table: v.Table, Health: v.Health,
	}
	if !v.Leader.IsZero() {
		j.Leader = v.Leader.String()
	}
	if !v.Coordinator.IsZero() {
		j.Coordinator = v.Coordinator.String()
	}
	for _, m := range v.Members {
		row := jsonMember{
			Name: m.Name, Incarnation: fmt.Sprintf("%016x", m.Incarnation), Status: m.Status.String(), Age: m.Age,
			Reachable: m.Reachable, Evidence: m.Evidence, Roles: append([]string{}, m.Roles...), Hosts: append([]string{}, m.Hosts...),
		}
		for _, s := range m.Suspicions {
			row.Suspicions = append(row.Suspicions, jsonSuspicion{s.By, s.At})
		}
		if !m.Alive.IsZero() {
			row.Alive = &m.Alive
		}
		j.Members = append(j.Members, row)
	}
	for _, s := range v.Singletons {
		row := jsonSingleton{Name: s.Kind, Why: s.Why, Hosts: []string{}}
		if !s.Node.IsZero() {
			row.Node = s.Node.String()
		}
		for _, a := range s.Hosts {
			row.Hosts = append(row.Hosts, a.String())
		}
		j.Singletons = append(j.Singletons, row)
	}
	return j
}

const drainLooks = time.Second

func drain(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	type result struct {
		node transport.Address
		err  error
	}
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	m, err := v.Find(o.node)
	if err != nil {
		return fmt.Errorf("cluster %s: drain %w", o.cluster, err)
	}
	done := make(chan result, 1)
	go func() {
		node, err := c.Leave(ctx, m.Address.String())
		done <- result{node, err}
	}()
	look := time.NewTicker(drainLooks)
	defer look.Stop()
	last := -1
	for {
		select {
		case r := <-done:
			return printDrained(w, o, r.node, r.err)
		case <-look.C:
		}
		left, entities, ok := shardsLeft(ctx, c, m.Address)
		if ok && left != last {
			if err := printLeft(w, o, m.Address, left, entities); err != nil {
				return err
			}
			last = left
		}
	}
}

// A jsonDrain is one line of drain -json. Fields are added, never changed.
type jsonDrain struct {
	Cluster  string `json:"cluster"`
	Node     string `json:"node"`
	Result   string `json:"result"` // leaves, has left
	Shards   int    `json:"shards"`
	Entities int    `json:"entities"`
}

func printLeft(w io.Writer, o *options, node transport.Address, shards, entities int) error {
	if o.json {
		return printJSONLine(w, jsonDrain{o.cluster, node.String(), "leaves", shards, entities})
	}
	_, err := fmt.Fprintf(w, "%s still has %d shards with %d entities\n", node.Name, shards, entities)
	return err
}

func printDrained(w io.Writer, o *options, node transport.Address, err error) error {
	if err == nil && o.json {
		return printJSONLine(w, jsonDrain{Cluster: o.cluster, Node: node.String(), Result: "has left"})
	}
	return printDone(w, o, node, "has left", err)
}

func shardsLeft(ctx context.Context, c *admin.Client, node transport.Address) (shards, entities int, ok bool) {
	all, err := c.Shards(ctx, "")
	if err != nil {
		return 0, 0, false
	}
	for _, n := range all {
		if n.Node != node || n.Err != nil {
			continue
		}
		ok = true
		for _, t := range n.Types {
			for _, s := range t.Held {
				shards++
				entities += int(s.Entities)
			}
		}
	}
	return shards, entities, ok
}
