// Package load makes calls from many goroutines for some time, and measures throughput, latency and
// processor time. All contestants of a benchmark use it, so that their figures can be compared.
package load

import (
	"slices"
	"sync"
	"syscall"
	"time"
)

// Measure is the result of one run.
type Measure struct {
	PerSecond float64
	Calls     int
	Warm      int           // calls before the measurement began
	P50, P99  time.Duration // zero where single calls are too short to time
	Value     float64       // of a row that is no rate: bytes, or milliseconds
	CPU       time.Duration // processor time of this process for each call
	Servers   time.Duration // processor time of the servers for each call, where it is measured
	PerAppend float64       // calls in one append to a log, where that is counted
}

// A Load says how Run and Bulk make calls. With the zero value callers do not warm up, and each has
// a goroutine of its own.
type Load struct {
	// Warm is how many calls each caller makes before the measurement. A new goroutine's first
	// calls make its stack grow, and with thousands of callers each makes few calls in a round.
	Warm int
	// Go runs f on the goroutine of a worker and returns at once. If nil, each worker has its own
	// goroutine.
	Go func(worker int, f func())
}

// Run makes calls for d, with a goroutine for each caller. worker is the goroutine's number, from 0,
// and i the number of its call.
func Run(callers int, d time.Duration, call func(worker, i int) error) (Measure, error) {
	return Load{}.Run(callers, d, call)
}

// Bulk is Run for calls about as short as reading the clock. It reads the clock only once for
// strideCalls calls.
func Bulk(callers int, d time.Duration, call func(worker, i int) error) (Measure, error) {
	return Load{}.Bulk(callers, d, call)
}

// roomForCalls is how many latencies are recorded without allocating. Allocations would count as
// the contestant's.
const roomForCalls = 1 << 20

// Run does the same as the function Run, with the settings of l.
func (l Load) Run(callers int, d time.Duration, call func(worker, i int) error) (Measure, error) {
	var (
		mu      sync.Mutex
		all     []time.Duration
		fail    error
		wg      sync.WaitGroup
		warming sync.WaitGroup
		begin   time.Time
	)
	start := make(chan struct{})
	begins := l.Go
	if begins == nil {
		begins = func(_ int, f func()) { go f() }
	}
	warming.Add(callers)
	wg.Add(callers)
	for w := range callers {
		begins(w, func() {
			defer wg.Done()
			took := make([]time.Duration, 0, max(roomForCalls/callers, 64))
			var err error
			for i := range l.Warm {
				if err == nil {
					err = call(w, i)
				}
			}
			warming.Done()
			<-start
			for i, at := l.Warm, time.Now(); err == nil && at.Sub(begin) < d; i++ {
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
	used := CPUTime()
	close(start)
	wg.Wait()
	m := Measure{PerSecond: float64(len(all)) / time.Since(begin).Seconds(), Calls: len(all), Warm: l.Warm * callers}
	if len(all) > 0 {
		m.CPU = (CPUTime() - used) / time.Duration(len(all))
	}
	slices.Sort(all)
	if n := len(all); n > 0 {
		m.P50, m.P99 = all[n/2], all[n*99/100]
	}
	return m, fail
}

const strideCalls = 256

// Bulk does the same as the function Bulk, with the settings of l.
func (l Load) Bulk(callers int, d time.Duration, call func(worker, i int) error) (Measure, error) {
	m, err := l.Run(callers, d, func(w, i int) error {
		for k := range strideCalls {
			if err := call(w, i*strideCalls+k); err != nil {
				return err
			}
		}
		return nil
	})
	m.PerSecond *= strideCalls
	m.Calls *= strideCalls
	m.P50, m.P99 = 0, 0
	m.CPU /= strideCalls
	return m, err
}

// CPUTime returns the processor time of this process. It varies less than wall time on a shared
// machine.
func CPUTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // it takes no arguments that could be wrong
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Pick returns the entity, from 0 to n-1, of a worker's i-th call. Successive calls and different
// workers get entities that are far apart.
func Pick(worker, i, n int) int { return int(uint32(worker*7919+i) * 2654435761 % uint32(n)) }
