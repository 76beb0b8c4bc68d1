package calls

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// payloads are the argument sizes of all benchmarks; each call returns as much.
var payloads = []struct {
	name  string
	bytes int
}{
	{"64B", 64},
	{"1KiB", 1024},
}

// manyCallers is how many goroutines call at once in the loaded benchmarks.
const manyCallers = 256

// callerCounts are the loads of the remote benchmarks.
var callerCounts = []int{1, manyCallers}

// eachPayload runs f for each payload as a sub-benchmark that counts its bytes.
func eachPayload(b *testing.B, f func(b *testing.B, payload []byte)) {
	for _, p := range payloads {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			f(b, make([]byte, p.bytes))
		})
	}
}

// eachLoad runs call from one goroutine and then from many.
func eachLoad(b *testing.B, call func(payload []byte) error) {
	for _, callers := range callerCounts {
		name := "1caller"
		if callers > 1 {
			name = strconv.Itoa(callers) + "callers"
		}
		b.Run(name, func(b *testing.B) {
			eachPayload(b, func(b *testing.B, payload []byte) {
				if callers == 1 {
					for b.Loop() {
						if err := call(payload); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				fromMany(b, callers, func() error { return call(payload) })
			})
		})
	}
}

// cpuTime is the processor time that this process has used, in nanoseconds. On
// a machine that others use too it tells more than the clock on the wall; it
// leaves the server's share out.
func cpuTime() int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// brokerTime is cpuTime of the NATS server, to 10 ms.
func brokerTime() int64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", serverPid))
	if err != nil {
		return 0 // no such files here
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			panic(err)
		}
		ticks += n
	}
	return ticks * 10e6
}

// fromMany spreads b.N calls over goroutines; b.Loop counts for one only.
func fromMany(b *testing.B, callers int, call func() error) {
	before, broker := cpuTime(), brokerTime()
	defer func() {
		b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
		b.ReportMetric(float64(brokerTime()-broker)/float64(b.N), "broker-ns/op")
	}()
	b.SetParallelism((callers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
