package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/shardgen/shardgen/bench/load"
)

type measure = load.Measure

// A group runs its contestants in turn, so that a round's figures share the machine's load. The
// first contestant is shardgen.
type group struct {
	contestants []contestant
	rows        []row
}

type contestant struct {
	name string
	run  func(time.Duration) (measure, error)
}

type row struct {
	title  string
	unit   string
	figure func(measure) float64
	less   bool   // less is better: ratios are inverted, so that above 1 is better
	target string // the wanted value
	// room, unless 0, is the argument wanted of group.room, which then makes this row. The row's
	// other fields are not used.
	room float64
}

func perSecond(m measure) float64 { return m.PerSecond }
func nanos(m measure) float64     { return 1e9 / m.PerSecond }
func cpu(m measure) float64       { return float64(m.CPU.Nanoseconds()) }
func servers(m measure) float64   { return float64(m.Servers.Nanoseconds()) }
func p50(m measure) float64       { return float64(m.P50.Nanoseconds()) / 1e3 }
func p99(m measure) float64       { return float64(m.P99.Nanoseconds()) / 1e3 }
func value(m measure) float64     { return m.Value }
func calls(m measure) float64     { return m.PerAppend }

func (g group) print(w io.Writer, rounds int, d time.Duration) error {
	samples := make([][]measure, len(g.contestants))
	for range rounds {
		for i, c := range g.contestants {
			m, err := c.run(d)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", g.rows[0].title, c.name, err)
			}
			samples[i] = append(samples[i], m)
		}
	}
	for _, r := range g.rows {
		if r.room > 0 {
			if _, err := fmt.Fprintln(w, g.room(samples, r.room)); err != nil {
				return err
			}
			continue
		}
		own := figures(samples[0], r.figure)
		line := fmt.Sprintf("| %s | %s |", r.title, show(own, r.unit))
		if len(g.contestants) == 1 {
			line += " |"
		}
		for i, c := range g.contestants[1:] {
			other := figures(samples[i+1], r.figure)
			ratios := make([]float64, rounds)
			for k := range ratios {
				if ratios[k] = own[k] / other[k]; r.less {
					ratios[k] = 1 / ratios[k]
				}
			}
			if i > 0 {
				line += ";"
			}
			line += fmt.Sprintf(" %s %s: **%.2f×**", c.name, show(other, r.unit), median(ratios))
		}
		if len(g.contestants) > 1 {
			line += " |"
		}
		if _, err := fmt.Fprintf(w, "%s %s |\n", line, r.target); err != nil {
			return err
		}
	}
	return nil
}

// room returns the row with the processor time at which a call reaches wanted × the second
// contestant's throughput. It assumes no idle processor: throughput is one over the processor time
// in process and servers.
func (g group) room(samples [][]measure, wanted float64) string {
	time := func(i int, f func(measure) float64) float64 { return median(figures(samples[i], f)) }
	both := func(i int) float64 { return time(i, cpu) + time(i, servers) }
	line := fmt.Sprintf("| its processor time, in the process and the servers | %.0f ns |", both(0))
	for i, c := range g.contestants[1:] {
		if i > 0 {
			line += ";"
		}
		line += fmt.Sprintf(" %s %.0f ns: **%.2f×**", c.name, both(i+1), both(i+1)/both(0))
	}
	left := both(1)/wanted - time(0, servers)
	if left <= 0 {
		return line + fmt.Sprintf(" | %.0f×: the servers alone take longer |", wanted)
	}
	return line + fmt.Sprintf(" | %.0f×: ≤ %.0f ns in the process |", wanted, left)
}

func (g group) profiled(folder string) group {
	if folder == "" {
		return g
	}
	g.contestants = slices.Clone(g.contestants)
	for i, c := range g.contestants {
		name := strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				return r
			}
			return '-'
		}, g.rows[0].title+" "+c.name)
		g.contestants[i].run = func(d time.Duration) (measure, error) {
			f, err := os.Create(filepath.Join(folder, name+".prof"))
			if err != nil {
				return measure{}, err
			}
			if err := pprof.StartCPUProfile(f); err != nil {
				return measure{}, errors.Join(err, f.Close())
			}
			m, err := c.run(d)
			pprof.StopCPUProfile()
			return m, errors.Join(err, f.Close())
		}
	}
	return g
}

func figures(ms []measure, f func(measure) float64) (out []float64) {
	for _, m := range ms {
		out = append(out, f(m))
	}
	return out
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// show formats the median of v. If v has several rounds, it adds half of their spread, in percent
// of the median.
func show(v []float64, unit string) string {
	m := median(v)
	text := ""
	switch {
	case unit == "":
		text = fmt.Sprintf("%.1f", m)
	case unit != "/s":
		text = fmt.Sprintf("%.0f %s", m, unit)
	case m >= 1e6:
		text = fmt.Sprintf("%.2f M%s", m/1e6, unit)
	case m >= 1e4:
		text = fmt.Sprintf("%.1f k%s", m/1e3, unit)
	default:
		text = fmt.Sprintf("%.0f%s", m, unit)
	}
	if len(v) > 1 && m > 0 {
		text += fmt.Sprintf(" ±%.0f%%", (slices.Max(v)-slices.Min(v))/m*50)
	}
	return text
}
