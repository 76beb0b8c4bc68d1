package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/shardgen/shardgen/internal/sim/scenario"
)

// page runs all scenarios at all sizes up to largest, if that is not 0, prints
// them as one table, and writes the page of figures to a file if one is named.
func page(w io.Writer, file string, seed uint64, largest int) error {
	jobs := scenario.Page(seed, largest)
	results := make([]scenario.Result, len(jobs))
	var wg sync.WaitGroup
	// The largest cluster of each scenario comes last, so the jobs begin in reverse order.
	next := make(chan int, len(jobs))
	for i := range jobs {
		next <- len(jobs) - 1 - i
	}
	close(next)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				results[i] = jobs[i].Scenario.Run(jobs[i].Options)
				fmt.Fprintf(os.Stderr, "done: %s\n", results[i].Command())
			}
		})
	}
	wg.Wait()
	if err := scenario.Print(w, results); err != nil {
		return err
	}
	var broken []error
	for _, r := range results {
		if r.Err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", r.Command(), r.Err))
		}
	}
	if err := errors.Join(broken...); err != nil || file == "" {
		return err
	}
	command := fmt.Sprintf("go run ./internal/sim/cmd/simulate -scenario all -seed %d -markdown %s", seed, file)
	if largest > 0 {
		command += fmt.Sprintf(" -nodes %d", largest)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(scenario.WritePage(out, command, results), out.Close())
}
