package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/runtime/admin"
)

// A jsonProcess is one line of the output of processes -json. Fields are added, never changed.
type jsonProcess struct {
	Node        string    `json:"node"`
	Release     string    `json:"release,omitempty"`
	Program     string    `json:"program,omitempty"`
	Go          string    `json:"go,omitempty"`
	Started     time.Time `json:"started,omitzero"`
	Heap        uint64    `json:"heap,omitempty"`
	Memory      uint64    `json:"memory,omitempty"`
	MemoryLimit uint64    `json:"memoryLimit,omitempty"`
	Procs       int       `json:"procs,omitempty"`
	Goroutines  int       `json:"goroutines,omitempty"`
	Ready       bool      `json:"ready"`
	Why         string    `json:"why,omitempty"` // why it is not ready, or has not answered
}

// processes prints each member's process.
func processes(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	all, err := c.Facts(ctx)
	if err != nil {
		return err
	}
	t := tableOf(o, "NODE", "RELEASE", "UP", "HEAP", "MEMORY", "LIMIT", "CPUS", "GOROUTINES", "READY")
	for _, f := range all {
		p := jsonProcess{
			Node: f.Node.Name, Release: f.Release, Program: f.Program, Go: f.Go, Started: f.Started, Heap: f.Heap, Memory: f.Memory,
			MemoryLimit: f.MemoryLimit, Procs: f.Procs, Goroutines: f.Goroutines, Ready: f.Ready, Why: strings.Join(f.Reasons, "; "),
		}
		if f.Err != nil {
			p = jsonProcess{Node: f.Node.Name, Why: f.Err.Error()}
		}
		if o.json {
			if err := printJSONLine(w, p); err != nil {
				return err
			}
			continue
		}
		if f.Err != nil {
			t.row(p.Node, "", "", "", "", "", "", "", "no answer: "+p.Why)
			continue
		}
		ready, limit := "yes", "none"
		if !p.Ready {
			ready = "no: " + p.Why
		}
		if p.MemoryLimit > 0 {
			limit = megabytes(p.MemoryLimit)
		}
		t.row(p.Node, p.Release, f.Time.Sub(f.Started).Round(time.Second), megabytes(p.Heap), megabytes(p.Memory), limit, p.Procs, p.Goroutines, ready)
	}
	if o.json {
		return nil
	}
	return t.print(w)
}

// A jsonClient is one line of the output of clients -json. Fields are added, never changed.
type jsonClient struct {
	Client  string   `json:"client"`
	Members []string `json:"members"`
}

func clients(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	all, err := c.Facts(ctx)
	if err != nil {
		return err
	}
	members, notes := map[string][]string{}, ""
	for _, f := range all {
		if f.Err != nil {
			notes += fmt.Sprintf("%s does not answer: %v\n", f.Node.Name, f.Err)
		}
		if more := f.ClientCount - len(f.Clients); more > 0 {
			notes += fmt.Sprintf("%s has %d more clients, which it does not name\n", f.Node.Name, more)
		}
		for _, client := range f.Clients {
			members[client] = append(members[client], f.Node.Name)
		}
	}
	t := tableOf(o, "CLIENT", "MEMBERS")
	for _, client := range slices.Sorted(maps.Keys(members)) {
		if o.json {
			if err := printJSONLine(w, jsonClient{client, members[client]}); err != nil {
				return err
			}
			continue
		}
		name, _, _ := strings.Cut(client, "#")
		if o.wide {
			name = client
		}
		t.row(name, strings.Join(members[client], " "))
	}
	if o.json {
		return nil
	}
	if err := t.print(w); err != nil {
		return err
	}
	_, err = io.WriteString(w, notes)
	return err
}

func megabytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func dump(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	text, err := c.Dump(ctx, o.node)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, map[string]string{"stacks": text})
	}
	_, err = io.WriteString(w, text)
	return err
}

func passivate(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	at, err := c.Passivate(ctx, o.kind, o.id)
	return printDone(w, o, at, "has passivated "+o.kind+"/"+shown(o.id), err)
}

const (
	waitLooks = 200 * time.Millisecond
	waitQuiet = 2 * time.Second
)

// waitSettled returns when the cluster has been settled for waitQuiet without a break. Settled
// means that the cluster is healthy, its members agree, and no shard moves. Each time the reason
// for waiting changes, waitSettled prints the new reason, except with -json.
func waitSettled(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	since, last := time.Time{}, ""
	for {
		why := unsettled(ctx, c, o)
		switch {
		case ctx.Err() != nil:
			if last == "" {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: %s", context.Cause(ctx), last)
		case why != "":
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= waitQuiet:
			return printSettled(w, o)
		}
		if why != last && why != "" && !o.json {
			if _, err := fmt.Fprintln(w, "waits:", why); err != nil {
				return err
			}
		}
		if why != "" {
			last = why
		}
		select {
		case <-ctx.Done():
		case <-time.After(waitLooks):
		}
	}
}

func printSettled(w io.Writer, o *options) error {
	if o.json {
		return printJSON(w, map[string]any{"cluster": o.cluster, "settled": true})
	}
	_, err := fmt.Fprintf(w, "%s has settled\n", o.cluster)
	return err
}

// unsettled returns why the cluster has not settled, or "" if it has.
func unsettled(ctx context.Context, c *admin.Client, o *options) string {
	if why, waits := verdict.Unsettled(verdict.Judge(clusterview.Look(ctx, c))); waits {
		return why.Sentence()
	}
	moves, _, err := c.Moves(ctx)
	switch {
	case err != nil:
		return err.Error()
	case len(moves) > 0:
		return fmt.Sprintf("%d shards move", len(moves))
	}
	return ""
}

// version prints the version of this program.
func version(w io.Writer) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this program was built without its version (build it with go install)")
	}
	text := "shardctl " + info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			text += " " + s.Value
		}
	}
	_, err := fmt.Fprintf(w, "%s %s %s/%s\n", text, info.GoVersion, runtime.GOOS, runtime.GOARCH)
	return err
}

// nearest returns the candidate that differs from word in the fewest letters, or "" if all
// candidates differ in more letters than one plus a third of word's.
func nearest(word string, candidates []string) string {
	best, least := "", 1+len(word)/3
	for _, c := range candidates {
		if d := distance(word, c); d <= least && (best == "" || d < distance(word, best)) {
			best = c
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace to turn a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			before, row[j+1] = row[j+1], min(before+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
