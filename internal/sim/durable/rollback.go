package durable

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

type image struct {
	position store.Position
	revision store.Revision
	shards   map[int]*kept
}

func (k *kept) clone() *kept {
	c := &kept{log: slices.Clone(k.log), head: slices.Clone(k.head), records: maps.Clone(k.records)}
	//arch:order-free each by itself
	for id, all := range c.records {
		c.records[id] = slices.Clip(slices.Clone(all))
	}
	return c
}

func (s *server) sync() image {
	i := image{s.position, s.revision, map[int]*kept{}}
	for shard, k := range s.shards { //arch:order-free each by itself
		i.shards[shard] = k.clone()
	}
	return i
}

// putBackTo puts the logs, the heads and records, or all of them, back to an image. The server then
// uses the later positions and revisions again.
func (s *server) putBackTo(i image, logs, records bool) {
	for shard, k := range s.shards { //arch:order-free each by itself
		was := i.shards[shard].clone()
		if logs {
			k.log = was.log
		}
		if records {
			k.head, k.records = was.head, was.records
		}
	}
	if logs {
		s.position = i.position
	}
	if records {
		s.revision = i.revision
	}
}

func (j *judge) keyOf(shard int, c *wire.DurableCommit) string {
	switch s := c.GetCommand().GetSource(); {
	case c.GetCommand() == nil && c.GetEnded():
		return ""
	case c.GetCommand() == nil:
		return fmt.Sprintf("fired %d %s %d %d", shard, c.GetEntity(), c.GetVersion(), c.GetAt())
	case s.GetIncarnation() == 0:
		return tellKey(int(s.GetShard()), uint32(shard), c.GetCommand().GetNumber())
	}
	return commandKey(c.GetCommand())
}

// restore adds those promised commits of an entity that the log has lost, up to the given version,
// because the living home has written them to a record.
func (t *truth) restore(j *judge, id string, version uint64) {
	all, promised := t.entities[id], t.promise[id]
	for n := len(promised); n > len(all); n-- {
		if promised[n-1].version != version {
			continue
		}
		for _, c := range promised[len(all):n] {
			c.position = 0
			t.entities[id] = append(t.entities[id], c)
			if c.key != "" {
				j.applied[c.key] = c
			}
		}
		return
	}
}

func lastIn(all []commit, log map[store.Position]bool) int {
	for i, c := range slices.Backward(all) {
		if log[c.position] {
			return i
		}
	}
	return -1
}

type known struct {
	shards  map[int]truth
	applied map[string]commit
}

func (j *judge) sync() known {
	k := known{map[int]truth{}, maps.Clone(j.applied)}
	for shard, t := range j.shards { //arch:order-free each by itself
		k.shards[shard] = t.clone()
	}
	return k
}

func (t *truth) clone() truth {
	c := *t
	c.entities, c.told = maps.Clone(t.entities), maps.Clone(t.told)
	for id, all := range c.entities { //arch:order-free each by itself
		c.entities[id] = slices.Clip(all)
	}
	return c
}

// putBack records that the server was put back to the state k. Each shard's living home promises
// its commits: see truth.promise.
func (j *judge) putBack(k known, logs, records bool, homeOf func(shard int) *home) {
	for _, shard := range sortedShards(j.shards) {
		t, was := j.shards[shard], k.shards[shard]
		now := was.clone()
		if t.promise == nil {
			t.promise = maps.Clone(t.entities)
		} else { // the former promise was not kept yet
			for id, all := range t.entities { //arch:order-free each by itself
				if len(all) > len(t.promise[id]) {
					t.promise[id] = all
				}
			}
		}
		if logs {
			t.claim, t.entities, t.told = now.claim, now.entities, now.told
		}
		if records {
			t.head, t.since = now.head, now.since
		}
		h := homeOf(shard)
		if t.promiser != nil {
			h = t.promiser // whatever head the server has lost, or was put back to
		}
		if h == nil || t.named { // the mark of a named loss may be lost too
			t.crashed = true
			j.void(shard)
			continue
		}
		t.crashed, t.promiser = true, h
	}
	if logs {
		j.applied = maps.Clone(k.applied)
	}
}

func sortedShards(all map[int]*truth) []int { return slices.Sorted(maps.Keys(all)) }

// void ends a shard's promise, because its home has died or lost the shard. The next home has only
// the commits in the store.
func (j *judge) void(shard int) {
	t := j.shards[shard]
	t.promise, t.promiser, t.named, t.forked, t.tainted = nil, nil, false, false, true
	j.resync(shard)
}

// resync replaces the judge's knowledge of a shard by the content of the store.
func (j *judge) resync(shard int) {
	t, k := j.shards[shard], j.server.shards[shard]
	h := j.server.head(shard)
	inLog := map[store.Position]bool{} // positions whose commits replace a record, even one of a later version
	for _, a := range k.log {
		inLog[a.Position] = a.Position > h.Since
	}
	var records []store.Record
	for _, id := range sortedKeys(k.records) {
		if r := k.recordAt(id, j.server.revision); r.Revision != store.None {
			records = append(records, r)
		}
	}
	has := map[string]durable.StoredEntity{}
	for _, e := range durable.Snap(h, nil, records, nil).Entities {
		has[e.ID] = e
	}
	for _, id := range sortedKeys(t.entities) {
		all := t.entities[id]
		if i := lastIn(all, inLog); i >= 0 {
			t.entities[id] = all[:i+1]
			continue
		}
		for len(all) > 0 {
			last := all[len(all)-1]
			if e, there := has[id]; there && e.Version == last.version && !last.ended || !there && last.ended {
				break
			}
			all = all[:len(all)-1]
		}
		if t.entities[id] = all; len(all) == 0 {
			delete(t.entities, id)
		}
	}
}

func (j *judge) kept(shard int) error {
	t := j.shards[shard]
	if t.promise == nil {
		return nil
	}
	for _, id := range sortedKeys(t.promise) {
		for i, want := range t.promise[id] {
			if i >= len(t.entities[id]) {
				return fmt.Errorf("acknowledged and lost: %s v%d of shard %d: %[5]d of %[4]d commits are left", id, want.version, shard, len(t.promise[id]), i)
			}
			if got := t.entities[id][i]; got.version != want.version || !bytes.Equal(got.state, want.state) || got.ended != want.ended {
				return fmt.Errorf("acknowledged and lost: %s v%d of shard %d: replaced by v%d", id, want.version, shard, got.version)
			}
		}
	}
	return j.has(shard)
}

// syncs writes everything to the server's disk now, and again every 0.1 to 3 s.
func (r *run) syncs() {
	r.server.disk, r.server.synced = r.server.sync(), r.judge.sync()
	r.w.after(r.between(100*time.Millisecond, 3*time.Second), r.syncs)
}

// unsynced crashes the server's machine. The server loses writes that are not on disk: to the logs, to
// the heads and records, or to both.
func (r *run) unsynced() {
	logs, records := true, true
	switch r.w.random.IntN(4) {
	case 0:
		logs = false
	case 1:
		records = false
	}
	s := r.server
	position, revision := s.position, s.revision
	for _, shard := range r.shards() {
		t := r.judge.shards[shard]
		if h := r.ownerOf(shard); t.promise != nil && h == t.promiser && !r.busy(shard) && r.judge.kept(shard) == nil {
			r.counts.Kept++
			t.promise, t.promiser = nil, nil
		}
		if t.promise == nil && t.tainted {
			r.judge.resync(shard)
		}
	}
	owners := map[int]*home{}
	for _, shard := range r.shards() {
		owners[shard] = r.ownerOf(shard)
	}
	s.putBackTo(s.disk, logs, records)
	s.position, s.revision = position, revision
	r.judge.putBack(s.synced, logs, records, func(shard int) *home { return owners[shard] })
	s.disk, s.synced = s.sync(), r.judge.sync()
	s.putBacks++
	r.counts.PutBacks++
	r.w.trace("the server loses what is not on its disk, logs %v, records %v", logs, records)
	s.restart(r.between(0, time.Second))
}

func (r *run) ownerOf(shard int) *home {
	head := &wire.DurableHead{}
	if err := decode(r.server.head(shard).Value, head); err != nil {
		return nil
	}
	for _, h := range r.homes {
		if t := h.tenures[shard]; t != nil && t.core.State() == durable.Open && h.incarnation == head.GetIncarnation() && t.core.Epoch() == head.GetEpoch() {
			return h
		}
	}
	return nil
}

func (r *run) busy(shard int) bool {
	h := r.ownerOf(shard)
	return h == nil || h.tenures[shard].core.Busy()
}

// opened records that a home has opened the shard. The promise of an earlier home, which lost the
// shard without leaving it in order, becomes void.
func (j *judge) opened(shard int, h *home) {
	t := j.shards[shard]
	head := &wire.DurableHead{}
	if err := decode(j.server.head(shard).Value, head); err == nil && head.GetEpoch() > h.tenures[shard].core.Epoch() {
		return // the claim was late, and the head is another home's
	}
	if t.promise != nil && t.named && j.kept(shard) != nil {
		j.server.w.fail("%s opens shard %d, although its living home %s has reported it lost: %v", h.name, shard, t.promiser.name, j.kept(shard))
	}
	if t.promise != nil {
		j.server.w.trace("the promise of %s for shard %d is void", t.promiser.name, shard)
		h.r.counts.Void++
		j.void(shard)
	}
}

func (j *judge) died(h *home) {
	for _, shard := range sortedShards(j.shards) {
		if t := j.shards[shard]; t.promiser == h {
			h.r.counts.Void++
			j.void(shard)
		}
	}
}

func (r *run) leftInOrder(t *tenure) {
	truth := r.judge.shards[t.shard]
	if truth.promise == nil || truth.promiser != t.home {
		return
	}
	if err := r.judge.kept(t.shard); err != nil {
		r.w.fail("%s leaves shard %d in order, but the store lacks a promised commit: %v", t.home.name, t.shard, err)
	}
	r.counts.InOrder++
	truth.promise, truth.promiser = nil, nil
}

// closed records why a home cannot open a shard. If only an operator can help, the operator drops
// the shard after 1 to 3 s.
func (r *run) closed(t *tenure, why error) {
	if truth := r.judge.shards[t.shard]; truth.promiser == t.home {
		truth.named = true
	}
	r.counts.Closed++
	if strings.Contains(why.Error(), "written again from the log") {
		return // the next tenure opens the shard
	}
	if truth := r.judge.shards[t.shard]; !truth.called {
		truth.called = true
		r.w.after(r.between(time.Second, 3*time.Second), func() { r.drop(t.shard) })
	}
}

func (r *run) drop(shard int) {
	r.judge.shards[shard].called = false
	if h := r.ownerOf(shard); h != nil {
		return
	}
	for _, h := range slices.Clone(r.homes) {
		r.crash(h)
	}
	r.w.trace("an operator drops shard %d", shard)
	*r.server.shards[shard] = kept{records: map[string][]store.Record{}}
	t := r.judge.shards[shard]
	tells := t.tells
	*t = truth{entities: map[string][]commit{}, tells: tells, told: map[string]uint64{}, stream: t.stream, crashed: true, tainted: true}
	r.server.disk, r.server.synced = r.server.sync(), r.judge.sync()
}

func (r *run) unsettled() error {
	for _, shard := range r.shards() {
		if t := r.judge.shards[shard]; t.promise == nil {
			continue
		} else if err := r.judge.kept(shard); err != nil {
			return err
		} else if r.busy(shard) {
			return fmt.Errorf("shard %d has not settled: home %s is still writing", shard, t.promiser.name)
		}
	}
	return nil
}

// lossy reports whether a tell may be lost, because its sender's or receiver's shard has lost
// commits.
func (r *run) lossy(from int, key string) bool {
	var to int
	_, _ = fmt.Sscanf(key, fmt.Sprintf("%d>%%d:", from), &to)
	return r.judge.shards[from].tainted || to != toStream && r.judge.shards[to].tainted
}

// promised reports whether a home may answer a command from memory, although the log lacks its
// commit.
func (j *judge) promised(shard int, id, key string) bool {
	t := j.shards[shard]
	return t.tainted || slices.ContainsFunc(t.promise[id], func(c commit) bool { return c.key == key })
}

func (j *judge) headOf(shard int) uint64 {
	head := &wire.DurableHead{}
	if err := decode(j.server.head(shard).Value, head); err != nil {
		return 0
	}
	return head.GetIncarnation()
}
