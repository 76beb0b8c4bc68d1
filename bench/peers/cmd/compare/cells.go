package main

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/bench/load"
)

// warmFor is the divisor for the warm-up: a cell runs unmeasured for 1/warmFor of the measured
// time.
const warmFor = 4

// counted counts failed calls and keeps the first error, so that a failed call does not end the
// cell.
type counted struct {
	failed atomic.Int64
	mu     sync.Mutex
	first  error
}

// maxFailed is the number of failed calls after which a cell ends.
const maxFailed = 1000

func (c *counted) note(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil {
		c.first = err
	}
	if c.failed.Add(1) > maxFailed {
		return errors.Join(errors.New("more than 1000 calls failed; the first error follows"), c.first)
	}
	return nil
}

// result returns the figures of a measurement. Failed calls do not count in PerSecond.
func (c *counted) result(m load.Measure) result {
	r := result{PerSecond: m.PerSecond, P50: m.P50, P99: m.P99, Calls: int64(m.Calls), Failed: c.failed.Load()}
	if r.Failed > 0 {
		r.Error = c.first.Error()
		r.PerSecond *= 1 - float64(r.Failed)/float64(max(r.Calls, r.Failed))
	}
	return r
}

// calls runs a cell whose callers wait for answers.
func calls(es entities, c cell, d time.Duration, run func(load.Load, int, time.Duration, func(w, i int) error) (load.Measure, error), call func(w, i int) error) (result, error) {
	on := load.Load{Go: es.run}
	if _, err := run(on, c.callers, d/warmFor, call); err != nil {
		return result{}, err
	}
	var n counted
	m, err := run(on, c.callers, d, func(w, i int) error { return n.note(call(w, i)) })
	return n.result(m), err
}

func echoes(es entities, c cell, d time.Duration) (result, error) {
	payload := make([]byte, c.bytes)
	return calls(es, c, d, load.Load.Run, func(w, i int) error { return es.echo(w, load.Pick(w, i, c.entities), payload) })
}

func adds(es entities, c cell, d time.Duration) (result, error) {
	return calls(es, c, d, load.Load.Bulk, func(w, i int) error { return es.add(w, load.Pick(w, i, c.entities)) })
}

// timedAdds makes calls that take long compared with reading the clock. Callers share no entities.
func timedAdds(es entities, c cell, d time.Duration) (result, error) {
	each := c.entities / c.callers
	return calls(es, c, d, load.Load.Run, func(w, i int) error { return es.add(w, w+c.callers*load.Pick(w, i, each)) })
}

// tells measures calls without answers. One ask in c.window calls bounds the tells under way. The
// measured time ends when all calls have run.
func tells(es entities, c cell, d time.Duration) (result, error) {
	var payload []byte
	if c.bytes > 0 {
		payload = make([]byte, c.bytes)
	}
	sent := make([]struct {
		told int64
		_    [56]byte // a cache line each
	}, c.callers)
	send := func(d time.Duration) (load.Measure, *counted, error) {
		n := new(counted)
		clear(sent)
		m, err := load.Load{Go: es.run}.Bulk(c.callers, d, func(w, i int) error {
			to := load.Pick(w, i, c.entities)
			if i%c.window == 0 {
				_, err := es.told(w, to)
				return err
			}
			err := es.tell(w, to, payload)
			if err == nil {
				sent[w].told++
			}
			return n.note(err)
		})
		return m, n, err
	}
	_, _, err := send(d / warmFor)
	if err != nil {
		return result{}, err
	}
	before, err := total(es, c.entities)
	if err != nil {
		return result{}, err
	}
	begin := time.Now()
	m, n, err := send(d)
	if err != nil {
		return result{}, err
	}
	after, err := total(es, c.entities)
	if err != nil {
		return result{}, err
	}
	arrived := time.Now()
	if _, err := total(es, c.entities); err != nil { // measures how long total alone takes
		return result{}, err
	}
	questions := time.Since(arrived)
	r := n.result(m)
	r.Calls = after - before
	r.PerSecond = float64(r.Calls) / max(arrived.Sub(begin)-questions, d).Seconds()
	r.Lost = -r.Calls
	for _, s := range sent {
		r.Lost += s.told
	}
	return r, nil
}

func total(es entities, n int) (sum int64, err error) {
	if all, ok := es.(interface{ total() (int64, error) }); ok { // it has one count for all entities
		return all.total()
	}
	const askers = 64
	var all sync.WaitGroup
	var arrived atomic.Int64
	errs := make([]error, askers)
	all.Add(askers)
	for w := range askers {
		es.run(w, func() {
			defer all.Done()
			for i := w; i < n && errs[w] == nil; i += askers {
				var got int64
				got, errs[w] = es.told(w, i)
				arrived.Add(got)
			}
		})
	}
	all.Wait()
	return arrived.Load(), errors.Join(errs...)
}
