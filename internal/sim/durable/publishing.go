package durable

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// RunPublishing does the same as Run with accounts that publish in many of their turns. At times
// the stream does not exist.
func RunPublishing(seed uint64, trace func(line string)) Result {
	random := newRandom(seed)
	p := newPlan(random)
	p.publishes = true
	return newRun(p, random, trace).all()
}

// duplicates is the time for which the stream knows the id of a message, and drops other messages
// with that id. A publisher whose first attempt is at least half of that time ago looks for the
// message in the stream before it publishes again. The other half is longer than the clock errors
// and the time of a request together.
func (r *run) duplicates() time.Duration { return 24*time.Second + 8*r.plan.skew }

// dropStream takes the stream away for a while, perhaps beyond the last fault. Shortly before, its
// answers are lost.
func (r *run) dropStream() {
	r.counts.NoStream++
	s := r.server
	s.away = r.w.now + r.between(0, 2*time.Second)
	s.back = s.away + r.between(0, min(2*r.duplicates(), settleTime/2))
	r.w.trace("there is no stream from %v to %v", s.away, s.back)
}

// toStream is the shard number in a tell that is a message for the stream.
const toStream = math.MaxUint32

// targetOf returns the shard that a tell goes to, or toStream.
func targetOf(log string, shard uint32) uint32 {
	if log == durable.Published {
		return toStream
	}
	return shard
}

// published returns up to two messages for a turn.
func (a *account) published() (all []durable.Tell) {
	r := a.t.home.r
	if !r.plan.publishes || r.w.chance(0.4) {
		return nil
	}
	for range 1 + r.w.random.IntN(2) {
		all = append(all, durable.Tell{Target: durable.Target{Log: durable.Published}, Entity: a.id, Body: binary.AppendUvarint(nil, a.version+1)})
	}
	return all
}

// publish publishes a tell to the stream, as the driver and the store do.
func (t *tenure) publish(tell durable.Tell) {
	h, s := t.home, t.home.r.server
	key := tellKey(t.shard, toStream, tell.Number)
	arrived := func() {
		t.core.Arrived(h.clock.now(), tell.Target, tell.Number)
		t.step()
	}
	put := func() {
		s.reach(h, func() { s.store(t.shard, tell.Entity, key, tell.Number, h.r.duplicates()) }, arrived)
	}
	h.r.counts.Published++
	if tell.First.IsZero() || h.clock.now().Sub(tell.First) < h.r.duplicates()/2 {
		put()
		return
	}
	h.r.counts.Searched++
	found := false
	s.reach(h, func() { _, found = s.stream[key] }, func() {
		if found {
			arrived()
		} else {
			put()
		}
	})
}

// reach simulates a home's request to the stream. It calls do when the request arrives, and done at
// the answer. The request may be late. It or its answer may be lost.
func (s *server) reach(from *home, do, done func()) {
	if from.cutStore || s.w.chance(s.trouble.loses) {
		return
	}
	delay := s.w.between(300*time.Microsecond, 3*time.Millisecond)
	if s.w.chance(s.trouble.late) {
		delay = s.w.between(0, 5*time.Second)
	}
	run := s.run
	s.w.after(delay, func() {
		if s.run != run || s.w.now < s.downTill || s.w.now >= s.away && s.w.now < s.back || s.w.chance(s.trouble.busy) {
			return
		}
		do()
		if !from.cutStore && s.w.now >= s.back && !s.w.chance(s.trouble.loses) {
			s.w.after(s.w.between(300*time.Microsecond, 3*time.Millisecond), func() { from.do(done) })
		}
	})
}

// store adds a message to the stream, unless it is a duplicate.
func (s *server) store(shard int, entity, key string, number uint64, duplicates time.Duration) {
	at, twice := s.stream[key]
	if twice && s.w.now-at < duplicates {
		s.judge.duplicates++
		return
	}
	s.stream[key] = s.w.now
	if err := s.judge.published(shard, entity, key, number, twice); err != nil {
		s.w.fail("%v", err)
	}
}

// published checks invariant 11 when the stream gets a message.
func (j *judge) published(shard int, entity, key string, number uint64, twice bool) error {
	t := j.shards[shard]
	dead, committed := t.tells[key]
	last := t.stream[entity]
	switch {
	case !committed:
		return fmt.Errorf("invariant 11: the stream gets message %s of %s, which is not committed", key, entity)
	case twice:
		return fmt.Errorf("invariant 11: the stream gets message %s of %s twice", key, entity)
	case number < last && !dead: // a message that was given up may still arrive
		return fmt.Errorf("invariant 11: the stream gets message %d of %s after message %d", number, entity, last)
	}
	t.stream[entity] = max(number, last)
	j.applied[key] = commit{}
	return nil
}
