package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

// printView prints the cluster as text.
func printView(w io.Writer, o *options, v admin.View) error {
	header := []string{"NODE", "STATUS", "AGE", "REACHABLE", "ROLES", "HOSTS"}
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
	_, err := fmt.Fprintf(w, "%d members, as %s sees them; %s\n%s", len(v.Members), clipMiddle(v.Self.Name, 24), state, pausedSince(v.Pause))
	return err
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

// The JSON of members. Fields are added, never changed.
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
		// Singletons is empty if the version of SeenBy does not report them.
		Singletons []jsonSingleton `json:"singletons"`
		Pause      *jsonPause      `json:"pause,omitempty"` // of rebalancing
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
	}
)

func viewOf(cluster string, v admin.View) jsonView {
	j := jsonView{
		Cluster: cluster, SeenBy: v.Self.String(), Founder: v.Founder.String(), Converged: v.Converged, Why: v.Why,
		Members: []jsonMember{}, Singletons: []jsonSingleton{}, Pause: pauseOf(v),
	}
	if !v.Leader.IsZero() {
		j.Leader = v.Leader.String()
	}
	if !v.Coordinator.IsZero() {
		j.Coordinator = v.Coordinator.String()
	}
	for _, m := range v.Members {
		j.Members = append(j.Members, jsonMember{
			Name: m.Name, Incarnation: fmt.Sprintf("%016x", m.Incarnation), Status: m.Status.String(), Age: m.Age,
			Reachable: m.Reachable, Evidence: m.Evidence, Roles: append([]string{}, m.Roles...), Hosts: append([]string{}, m.Hosts...),
		})
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
