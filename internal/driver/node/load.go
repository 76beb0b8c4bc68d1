package node

import (
	"cmp"
	"io/fs"
	"math"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/runtime/measure"
)

// A shardTime has the time of a shard's turns. It is not a part of HostedShard, because turns of
// other processes' calls would then invalidate cache lines of local callers.
type shardTime struct {
	used    atomic.Int64 // nanoseconds, by a sample; see spent
	metered int64        // the value of used at the last measurement; guarded by the LoadMeter
}

// spent adds took, the time of a turn that has ended, to the time of the turn's shard.
func (s *HostedShard) spent(took time.Duration) {
	h := s.Host
	h.times[s.ID.Shard&uint32(len(h.times)-1)].used.Add(int64(took))
}

// spentWithin adds the time of n turns on their callers' goroutines to the shard's time. Only one
// of these turns was timed. took is the time of that turn, so the sums are right on average. The
// same time is subtracted from the shard of up, the turn that made the timed call; up may be nil.
func (s *HostedShard) spentWithin(up *turn, n uint64, took time.Duration) {
	all := time.Duration(n) * took
	s.spent(all)
	up.waited(all)
}

// waited subtracts d, for which the turn waited, from the time of the turn's shard. The turn may be
// nil.
func (t *turn) waited(d time.Duration) {
	if t != nil {
		t.shard().spent(-d)
	}
}

// waitedSince is waited for a wait that ends now. began is in nanoseconds after the driver's base.
func (t *turn) waitedSince(began int64) {
	if t != nil {
		t.waited(t.shard().driver().since(began))
	}
}

// maxOverhead bounds the processor time that counts for a shard, as a multiple of the time of its
// turns. The envelopes and frames of a call may cost as much as twenty short turns. Time above the
// bound is not the shard's: it would stay here if the shard moved.
const maxOverhead = 32

// maxHottest bounds the number of shards in measure.Process.Hottest.
const maxHottest = 10

// A ProcessLoad is the load of the process and of its shards in one interval.
type ProcessLoad struct {
	measure.Process
	// Types has the hosted types except singletons, ordered by name, with all shards held here.
	Types []TypeLoad
}

// A TypeLoad is the load of a type's shards.
type TypeLoad struct {
	Kind   string
	Shards []ShardUse
}

// Of returns the number of processors that a shard uses; 0 if the shard is not in l.
func (l *ProcessLoad) Of(kind string, shard uint32) float64 {
	for i := range l.Types {
		t := &l.Types[i]
		if t.Kind != kind {
			continue
		}
		if at, ok := slices.BinarySearchFunc(t.Shards, shard, func(s ShardUse, n uint32) int { return cmp.Compare(s.Shard, n) }); ok {
			return t.Shards[at].Used
		}
	}
	return 0
}

// Used returns the processors that the shards use together.
func (t *TypeLoad) Used() (used float64) {
	for _, s := range t.Shards {
		used += s.Used
	}
	return used
}

// A ShardUse is the number of processors that a shard uses.
type ShardUse struct {
	Shard uint32
	Used  float64
}

// A LoadMeter measures the processor time of the process and of its shards. It is safe for concurrent
// use.
type LoadMeter struct {
	last     atomic.Pointer[ProcessLoad]
	capacity float64
	zone     string

	mu      sync.Mutex
	at      int64 // of the last measurement, in nanoseconds after the driver's base
	cpu, gc time.Duration
}

// NewLoadMeter returns a LoadMeter. capacity is the number of processors that the process may use; 0
// means as many as the system gives it.
func NewLoadMeter(capacity float64, zone string, system fs.FS) *LoadMeter {
	if capacity == 0 {
		capacity = processors(system, runtime.GOMAXPROCS(0))
	}
	m := &LoadMeter{capacity: capacity, zone: zone}
	m.last.Store(&ProcessLoad{Process: measure.Process{Capacity: capacity, Zone: zone}})
	return m
}

// metered is the number of nodes in this process that measure their loads. If there are several, as
// in tests, the processor time of the process is not the time of one node. Then only the times of
// turns count.
var metered atomic.Int32

// Begin begins the first interval. The caller must call end when the node of m ends.
func (m *LoadMeter) Begin(now int64) (end func()) {
	metered.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.cpu, m.gc = now, cpuTime(), gcTime()
	return func() { metered.Add(-1) }
}

// Last returns the last measurement.
func (m *LoadMeter) Last() *ProcessLoad { return m.last.Load() }

// Capacity returns the number of processors that the process may use.
func (m *LoadMeter) Capacity() float64 { return m.capacity }

// Measure ends an interval, and returns the load in it.
func (m *LoadMeter) Measure(now int64, hosts []*Host) *ProcessLoad {
	m.mu.Lock()
	defer m.mu.Unlock()
	took, cpu, gc := time.Duration(now-m.at), cpuTime(), gcTime()
	l := &ProcessLoad{Process: measure.Process{Capacity: m.capacity, Zone: m.zone, Memory: memoryShare()}}
	turns := time.Duration(0) // of all types
	for _, h := range hosts {
		t := TypeLoad{Kind: h.Desc.Name}
		for i := range h.Shards {
			s, sum := &h.Shards[i], &h.times[i]
			d := max(0, sum.used.Load()-sum.metered) // waits may be taken away before the turns that they were in have ended
			sum.metered += d
			turns += time.Duration(d)
			if _, held := s.Held(); held {
				t.Shards = append(t.Shards, ShardUse{s.ID.Shard, float64(d)})
			}
		}
		if h.Instance == nil {
			l.Types = append(l.Types, t)
		}
	}
	slices.SortFunc(l.Types, func(a, b TypeLoad) int { return strings.Compare(a.Kind, b.Kind) })
	used := cpu - m.cpu
	if metered.Load() > 1 {
		used = 0
	}
	l.scale(took, used, turns)
	if used > 0 {
		l.GC = min(1, max(0, float64(gc-m.gc)/float64(used)))
	}
	m.at, m.cpu, m.gc = now, cpu, gc
	m.last.Store(l)
	return l
}

// scale converts the nanoseconds of each shard to a number of processors. All turns together get
// the processor time of the process, but at most maxOverhead times their own time.
func (l *ProcessLoad) scale(took, cpu, turns time.Duration) {
	took = max(took, 1)
	l.Used = float64(cpu) / float64(took)
	if cpu <= 0 { // it is not known
		l.Used, cpu = float64(turns)/float64(took), turns
	}
	share := 0.0
	if turns > 0 {
		share = min(maxOverhead, float64(cpu)/float64(turns)) / float64(took)
	}
	for i := range l.Types {
		t := &l.Types[i]
		for j := range t.Shards {
			s := &t.Shards[j]
			if s.Used *= share; s.Used > 0 {
				l.Hottest = append(l.Hottest, measure.Shard{Kind: t.Kind, Shard: s.Shard, Used: s.Used})
			}
		}
	}
	slices.SortFunc(l.Hottest, func(a, b measure.Shard) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), strings.Compare(a.Kind, b.Kind), cmp.Compare(a.Shard, b.Shard))
	})
	l.Hottest = slices.Clone(l.Hottest[:min(maxHottest, len(l.Hottest))])
}

// gcTime returns the processor time of the garbage collector, as the runtime estimates it.
func gcTime() time.Duration {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(s)
	return time.Duration(s[0].Value.Float64() * float64(time.Second))
}

// memoryShare returns which share of GOMEMLIMIT the process uses; 0 means that there is no limit.
func memoryShare() float64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 || limit <= 0 {
		return 0
	}
	return float64(MemoryUsed()) / float64(limit)
}

// MemoryUsed returns the bytes that the Go runtime holds from the system.
func MemoryUsed() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// processors returns how many processors the process may use: procs, or fewer if a control group of
// the process has a quota. system is the root of the file system.
func processors(system fs.FS, procs int) float64 {
	least := float64(procs)
	own, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for _, line := range strings.Split(string(own), "\n") {
		dir, ok := strings.CutPrefix(line, "0::/") // version 2
		if !ok {
			continue
		}
		for dir = path.Clean(dir); ; dir = path.Dir(dir) { // a parent's quota bounds it too
			if q := quota(system, path.Join("sys/fs/cgroup", dir, "cpu.max")); q > 0 {
				least = min(least, q)
			}
			if dir == "." || dir == "/" || strings.HasPrefix(dir, "..") {
				break
			}
		}
	}
	return least
}

// quota returns the number of processors that a file such as "200000 100000" allows: microseconds
// of use and of the period. 0 means no quota.
func quota(system fs.FS, name string) float64 {
	text, err := fs.ReadFile(system, name)
	fields := strings.Fields(string(text))
	if err != nil || len(fields) != 2 {
		return 0
	}
	used, err := strconv.ParseFloat(fields[0], 64) // "max" is none
	period, bad := strconv.ParseFloat(fields[1], 64)
	if err != nil || bad != nil || period <= 0 {
		return 0
	}
	return used / period
}
