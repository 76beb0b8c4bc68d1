package durable

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// home is a process that has shards. It drives their cores like internal/driver/durablehost.
type home struct {
	r           *run
	name        string
	incarnation uint64
	clock       clock
	storeSkew   time.Duration // of the store's clock, as the home knows it
	form        uint32        // the version of states that its program writes; 0 means the first
	index       int           // which indexes its program has; 0 means none
	dead        bool
	frozen      bool
	backlog     []func() // inputs that came while the home was frozen
	cutStore    bool     // cut off from the store
	cutCluster  bool     // cut off from the coordinator, callers and other homes
	cutControl  bool     // cut off from the coordinator only
	tenures     map[int]*tenure
	used        map[[2]uint64]bool // by shard and epoch
	met         map[int]uint64     // by shard: the highest epoch met
	handed      map[int]uint64     // by shard: the highest epoch given up
	known       map[int]durable.Mark
	told        map[int]uint64 // above all tell numbers used by this home
	putBacks    int            // how many put-backs of the server the home has noticed
	floor       map[int]uint64 // for singletons: above all epochs that this home has used, or met in the store
}

func newHome(r *run) *home {
	r.named++
	h := &home{
		r: r, name: fmt.Sprintf("h%d", r.named), incarnation: r.w.random.Uint64() | 1, form: r.program(), index: r.indexes(), clock: clock{r.w, r.skew()}, storeSkew: r.storeSkew,
		tenures: map[int]*tenure{}, used: map[[2]uint64]bool{}, met: map[int]uint64{}, handed: map[int]uint64{}, floor: map[int]uint64{},
		known: map[int]durable.Mark{}, told: map[int]uint64{}, putBacks: r.server.putBacks,
	}
	r.homes = append(r.homes, h)
	h.beat()
	return h
}

func (h *home) verify() {
	if h.cutStore || h.putBacks == h.r.server.putBacks || h.r.w.now < h.r.server.downTill {
		return
	}
	h.putBacks = h.r.server.putBacks
	for _, shard := range h.r.shards() {
		if t := h.tenures[shard]; t != nil {
			t.core.Verify(h.clock.now())
			t.step()
		}
	}
}

// do runs f in the process: at once, or when a frozen process goes on. A dead process never runs
// it.
func (h *home) do(f func()) {
	switch {
	case h.dead:
	case h.frozen:
		h.backlog = append(h.backlog, f)
	default:
		f()
	}
}

func (h *home) later(d time.Duration, f func()) { h.r.w.after(d, func() { h.do(f) }) }

func (h *home) thaw() {
	h.frozen = false
	all := h.backlog
	h.backlog = nil
	for _, f := range all {
		h.do(f)
	}
}

// expiry returns the time at which an account expires if it commits now, in Unix milliseconds; 0
// means never.
func (h *home) expiry() int64 {
	if h.r.plan.ttl == 0 {
		return 0
	}
	return h.clock.now().Add(h.r.plan.ttl).UnixMilli()
}

func (h *home) beat() {
	if !h.cutCluster && !h.cutControl {
		var report []held
		for _, shard := range h.r.shards() {
			if t := h.tenures[shard]; t != nil {
				report = append(report, held{shard, t.epoch})
			}
		}
		met, handed := copyOf(h.met), copyOf(h.handed)
		h.r.message(func() { h.r.coordinator.hear(h, report, met, handed) })
	}
	h.verify()
	h.later(100*time.Millisecond, h.beat)
}

func copyOf(m map[int]uint64) map[int]uint64 {
	c := map[int]uint64{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

func (h *home) assign(shard int, epoch uint64) {
	if t := h.tenures[shard]; t != nil {
		if t.epoch >= epoch {
			return
		}
		t.drop()
	}
	c := durable.Config{Known: h.known[shard], FirstTell: max(h.told[shard], uint64(h.clock.now().UnixMicro())), Epoch: epoch, Node: h.name, Incarnation: h.incarnation, Limits: h.r.plan.limits, Journal: h.r.plan.journaling, Index: h.indexing()}
	if c.Above = h.r.plan.singletons; c.Above {
		c.Epoch = max(h.floor[shard], 1) // the epoch in the store, which differs from that of the placement
	} else if key := [2]uint64{uint64(shard), epoch}; h.used[key] {
		h.met[shard] = max(h.met[shard], epoch)
		return
	}
	h.used[[2]uint64{uint64(shard), epoch}] = true
	t := &tenure{home: h, shard: shard, epoch: epoch, accounts: map[string]*account{}, lists: map[uint64]list{}, finds: map[uint64]find{}}
	h.tenures[shard] = t
	t.core = durable.New(h.clock.now(), c)
	h.r.w.trace("%s claims %d under %d", h.name, shard, epoch)
	t.step()
	if h.r.plan.lists > 0 {
		h.later(h.r.w.between(0, h.r.plan.lists), t.list)
		if h.index > 0 {
			h.later(h.r.w.between(0, h.r.plan.lists), t.find)
		}
	}
	if h.r.plan.sweeps > 0 {
		h.later(h.r.w.between(0, h.r.plan.sweeps), t.sweep)
	}
}

func (h *home) leave(shard int, epoch uint64) {
	if t := h.tenures[shard]; t != nil && t.epoch <= epoch {
		t.leaving = true
		t.core.Verify(h.clock.now())
		t.core.Checkpoint(h.clock.now())
		t.step()
		h.later(time.Second, func() { // the home does not wait for ever
			if h.tenures[shard] == t {
				t.drop()
			}
		})
	} else if t == nil {
		h.handed[shard] = max(h.handed[shard], epoch)
	}
}

func (h *home) receive(c *call) {
	r := h.r
	shard := r.shardOf(c.entity)
	t := h.tenures[shard]
	if t == nil || t.leaving {
		c.answer(answer{verdict: durable.Closed})
		return
	}
	a := t.core.Admit(h.clock.now(), &c.command)
	r.counts.verdict(a.Verdict)
	switch a.Verdict {
	case durable.Run:
		t.account(c.entity).enqueue(c)
	case durable.Replay:
		t.wait(a.Ticket, func() {
			c.answer(answer{durable.Replay, t.leavesCommit(c.entity, c.command, decodeResult(a.Answer))})
		})
	case durable.Running: // its caller asks again
	default:
		c.answer(answer{verdict: a.Verdict})
	}
	t.step()
}
