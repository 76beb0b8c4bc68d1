package main

import (
	"fmt"
	"slices"
	"strings"
)

// A row shows one figure of a group; each form of this project has a line of its own.
type row struct {
	title  string
	unit   string
	figure func(result) float64
	less   bool // less is better
}

// forms has the words that follow the title of a row, for each form of this project but the first.
var forms = map[string]string{
	"direct":          ", on a direct lane",
	"by id each time": ", by id each time",
	"with references": ", a reference and a tell kept",
	"metrics on":      ", metrics on",
	"durable read":    " by //shard:read of a durable entity",
	"durable":         ", durable",
}

// line is a row of Markdown for one form of this project.
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

// ratio is the median, the least and the greatest of the rounds' ratios.
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

// show is the median, the least and the greatest of the rounds, and the number of failures in them.
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

// short has three digits, two of a number below 1, and all whole digits of one from 1000.
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
