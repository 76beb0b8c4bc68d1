package main

import (
	"slices"
	"sync"
	"syscall"
	"time"
)

// measure is the result of one run of a contestant.
type measure struct {
	perSecond float64
	calls     int
	warm      int           // calls before the measurement began
	p50, p99  time.Duration // zero where single calls are too short to time
	value     float64       // of a row that is no rate: bytes, or seconds
	cpu       time.Duration // processor time of this process by call
	servers   time.Duration // that of the servers, where it is measured
}

// load calls from so many goroutines until the time is over. worker tells them
// apart, i counts the calls of one.
func load(callers int, d time.Duration, call func(worker, i int) error) (measure, error) {
	return loadAfter(0, callers, d, call)
}

// loadAfter is load whose callers have made so many calls each when the measurement begins. A new
// goroutine makes its first calls while its stack grows, and thousands of callers make few calls in
// a round.
func loadAfter(warm, callers int, d time.Duration, call func(worker, i int) error) (measure, error) {
	var (
		mu      sync.Mutex
		all     []time.Duration
		fail    error
		wg      sync.WaitGroup
		warming sync.WaitGroup
		begin   time.Time
	)
	start := make(chan struct{})
	warming.Add(callers)
	for w := range callers {
		wg.Go(func() {
			var took []time.Duration
			var err error
			for i := range warm {
				if err == nil {
					err = call(w, i)
				}
			}
			warming.Done()
			<-start
			for i, at := warm, time.Now(); err == nil && at.Sub(begin) < d; i++ {
				err = call(w, i)
				now := time.Now()
				took = append(took, now.Sub(at))
				at = now
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if fail == nil {
				fail = err
			}
		})
	}
	warming.Wait()
	begin = time.Now()
	used := cpuTime()
	close(start)
	wg.Wait()
	m := measure{perSecond: float64(len(all)) / time.Since(begin).Seconds(), calls: len(all), warm: warm * callers}
	if len(all) > 0 {
		m.cpu = (cpuTime() - used) / time.Duration(len(all))
	}
	slices.Sort(all)
	if n := len(all); n > 0 {
		m.p50, m.p99 = all[n/2], all[n*99/100]
	}
	return m, fail
}

// strideCalls is how many short calls go between two looks at the clock.
const strideCalls = 256

// bulk is load for calls that are short against reading the clock.
func bulk(callers int, d time.Duration, call func(worker, i int) error) (measure, error) {
	m, err := load(callers, d, func(w, i int) error {
		for k := range strideCalls {
			if err := call(w, i*strideCalls+k); err != nil {
				return err
			}
		}
		return nil
	})
	m.perSecond *= strideCalls
	m.calls *= strideCalls
	m.p50, m.p99 = 0, 0
	m.cpu /= strideCalls
	return m, err
}

// cpuTime is the processor time that this process has used: on a machine that
// others use too it tells more than the clock on the wall.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // it takes no arguments that could be wrong
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
