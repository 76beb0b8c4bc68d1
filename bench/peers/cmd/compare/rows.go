package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	many         = 10_000
	someTold     = 256 // few enough to ask each at the end
	idleEntities = 100_000
	localWindow  = 512 // below the bound of a mailbox, 1,000
	remoteWindow = 8192
)

func groups() []group {
	senders := runtime.GOMAXPROCS(0)
	frameworks := []string{"protoactor"}
	remotely := []string{"protoactor", "grpc"}
	byHand := []string{"nats.Request", "NATS batched", "TCP batched"}
	over := []string{"shardgen", "direct"}
	busy := func(bytes int, title string) group {
		return group{
			"busy-" + strconv.Itoa(bytes),
			cell{kind: "remote", entities: many, run: echoes, callers: maxWorkers, bytes: bytes},
			over, byHand, remotely,
			[]row{{"remote, 256 callers, " + title, "/s", perSecond, false}, {"its p99", "µs", p99, true}},
		}
	}
	return []group{
		{
			"lone",
			cell{kind: "remote", entities: many, run: echoes, callers: 1, bytes: 64},
			over, byHand, remotely,
			[]row{{"lone remote call, 64 B, p50", "µs", p50, true}, {"its p99", "µs", p99, true}},
		},
		busy(64, "64 B"), busy(1024, "1 KiB"),
		{
			"one-way",
			cell{kind: "remote", entities: someTold, run: tells, callers: senders, bytes: 64, window: remoteWindow},
			over,
			[]string{"Publish", "NATS batched", "TCP batched"},
			frameworks,
			[]row{{"one-way remote, 64 B", "/s", perSecond, false}},
		},
		{
			"tell-1",
			cell{kind: "local", entities: 1, run: tells, callers: 1, window: localWindow},
			[]string{"shardgen"},
			[]string{"channel"},
			frameworks,
			[]row{{"local tell, one sender to one entity", "/s", perSecond, false}},
		},
		{
			"tell-10000",
			cell{kind: "local", entities: many, run: tells, callers: 2, window: localWindow},
			[]string{"shardgen"},
			[]string{"channel"},
			frameworks,
			[]row{{"local tell, 2 senders to 10,000 entities", "/s", perSecond, false}},
		},
		{
			"ask-1",
			cell{kind: "local", entities: 1, run: adds, callers: 1},
			[]string{"shardgen", "by id each time"},
			[]string{"mutex"},
			frameworks,
			[]row{{"local ask, one id", "ns", nanos, true}},
		},
		{
			"cluster",
			cell{kind: "cluster", callers: 64},
			over, nil, frameworks,
			[]row{{"fresh ids over three members, 64 callers", "/s", perSecond, false}, {"a cluster of three forms", "ms", value, true}},
		},
		{
			"idle",
			cell{kind: "idle", entities: idleEntities},
			[]string{"shardgen", "with references"},
			[]string{"channel"},
			frameworks,
			[]row{{"memory of an idle entity", "B", value, true}},
		},
		{
			"measured-1",
			cell{kind: "local", entities: 1, run: adds, callers: 1},
			[]string{"metrics on", "one in 100 traced"},
			[]string{"metrics off"},
			nil,
			[]row{{"local ask, one id", "ns", nanos, true}},
		},
		{
			"measured-lone",
			cell{kind: "remote", entities: many, run: echoes, callers: 1, bytes: 64},
			[]string{"metrics on", "one in 100 traced"},
			[]string{"metrics off"},
			nil,
			[]row{{"lone remote call, 64 B, p50", "µs", p50, true}},
		},
		{
			"measured-64",
			cell{kind: "remote", entities: many, run: echoes, callers: maxWorkers, bytes: 64},
			[]string{"metrics on", "one in 100 traced"},
			[]string{"metrics off"},
			nil,
			[]row{{"remote, 256 callers, 64 B", "/s", perSecond, false}},
		},
		{
			"read-1",
			cell{kind: "local", entities: 1, run: adds, callers: 1},
			[]string{"durable read"},
			[]string{"volatile"},
			nil,
			[]row{{"local ask, one id", "ns", nanos, true}},
		},
		{
			"durable-1",
			cell{kind: "local", entities: many, run: timedAdds, callers: 1},
			[]string{"durable"},
			[]string{"JetStream publish"},
			nil,
			[]row{{"lone local ask, p50", "µs", p50, true}},
		},
		{
			"durable-256",
			cell{kind: "local", entities: many, run: timedAdds, callers: maxWorkers},
			[]string{"durable"},
			[]string{"JetStream publish"},
			nil,
			[]row{{"local asks, 256 callers", "/s", perSecond, false}, {"its p99", "µs", p99, true}},
		},
	}
}

// A row shows one figure of a group, with a line for each form of this project.
type row struct {
	title  string
	unit   string
	figure func(result) float64
	less   bool // less is better
}

// forms maps this project's forms to the words that each adds to a row's title.
var forms = map[string]string{
	"direct":            ", on a direct lane",
	"by id each time":   ", by id each time",
	"with references":   ", a reference and a tell kept",
	"metrics on":        ", metrics on",
	"one in 100 traced": ", one in 100 traced",
	"durable read":      " by //shard:read of a durable entity",
	"durable":           ", durable",
}

func (r row) line(g group, rs results, ours string) string {
	cells := []string{r.title + forms[ours], r.show(rs, ours)}
	var hand, ratios []string
	for _, name := range g.hand {
		hand = append(hand, name+" "+r.show(rs, name))
		ratios = append(ratios, r.ratio(rs, ours, name))
	}
	cells = append(cells, strings.Join(hand, "; "), strings.Join(ratios, "; "))
	best := ""
	for _, name := range columns {
		if !slices.Contains(g.peers, name) {
			cells = append(cells, "")
			continue
		}
		cells = append(cells, r.show(rs, name))
		if rs.works(name) && (best == "" || r.better(rs, name, best)) {
			best = name
		}
	}
	if best != "" {
		cells = append(cells, best+" "+r.ratio(rs, ours, best))
	} else {
		cells = append(cells, "")
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

func (r row) figures(rs results, name string) (all []float64) {
	for _, one := range rs[name] {
		all = append(all, r.figure(one))
	}
	return all
}

func (r row) better(rs results, a, b string) bool {
	x, y := median(r.figures(rs, a)), median(r.figures(rs, b))
	return (x > y) != r.less
}

func (r row) ratio(rs results, ours, other string) string {
	if !rs.works(ours) || !rs.works(other) {
		return "–"
	}
	own, others := r.figures(rs, ours), r.figures(rs, other)
	ratios := make([]float64, len(own))
	for i := range ratios {
		if ratios[i] = own[i] / others[i]; r.less {
			ratios[i] = 1 / ratios[i]
		}
	}
	text := fmt.Sprintf("**%s×**", short(median(ratios)))
	if len(ratios) > 1 {
		text += fmt.Sprintf(" (%s–%s)", short(slices.Min(ratios)), short(slices.Max(ratios)))
	}
	return text
}

func (r row) show(rs results, name string) string {
	if !rs.works(name) {
		return "failed"
	}
	v := r.figures(rs, name)
	scale, unit := 1.0, " "+r.unit
	if r.unit == "/s" {
		switch m := median(v); {
		case m >= 1e6:
			scale, unit = 1e6, " M/s"
		case m >= 1e3:
			scale, unit = 1e3, " k/s"
		}
	}
	text := short(median(v) / scale)
	if len(v) > 1 {
		text += fmt.Sprintf(" (%s–%s)", short(slices.Min(v)/scale), short(slices.Max(v)/scale))
	}
	var failed, lost int64
	for _, one := range rs[name] {
		failed, lost = failed+one.Failed, lost+one.Lost
	}
	text += unit
	if failed != 0 || lost != 0 {
		text += fmt.Sprintf(" **%d failed, %d lost**", failed, lost)
	}
	return text
}

// short formats v with three digits, or two below 1. From 1000 on it keeps all digits before the
// point.
func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v < 0.1:
		return fmt.Sprintf("%.2g", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// A result is one contestant's cell in one round, as the child reports it. The parent sets Value
// for clusters.
type result struct {
	PerSecond float64
	P50, P99  time.Duration
	Value     float64 // bytes, or milliseconds
	Calls     int64
	Failed    int64 // calls with an error
	Lost      int64 // tells that returned no error and did not arrive
	Error     string
}

func perSecond(r result) float64 { return r.PerSecond }
func nanos(r result) float64     { return 1e9 / r.PerSecond }
func p50(r result) float64       { return float64(r.P50.Nanoseconds()) / 1e3 }
func p99(r result) float64       { return float64(r.P99.Nanoseconds()) / 1e3 }
func value(r result) float64     { return r.Value }

type results map[string][]result

// works reports whether every round of the named contestant has figures.
func (rs results) works(name string) bool {
	return !slices.ContainsFunc(rs[name], func(r result) bool { return r.Calls == 0 })
}

var columns = []string{"protoactor", "grpc"}

// printTable prints all rows, then the first error of each failed cell.
func printTable(w io.Writer, groups []group, tables []results) {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	p("| case | shardgen | by hand | ÷ by hand | %s | ÷ best peer |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", 5+len(columns)))
	for i, g := range groups {
		for _, ours := range g.ours {
			for _, r := range g.rows {
				p("%s\n", r.line(g, tables[i], ours))
			}
		}
	}
	p("\n")
	for i, g := range groups {
		for _, name := range g.contestants() {
			for round, r := range tables[i][name] {
				if r.Error != "" {
					p("- %s, %s, round %d: %s\n", g.rows[0].title, name, round+1, r.Error)
				}
			}
		}
	}
}
