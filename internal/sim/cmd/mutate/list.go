package main

// listed are the mutants that were tried by hand when the protocol was reviewed. Each names
// the test that fails with it.
var listed = []listedMutant{
	{
		number: 0, breaks: "a barrier is not closed while the shard is Prepared",
		file: "internal/region/flushing.go",
		before: `	if s.how.Unordered {
		return Effects{}
	}
	p := flushKey`,
		after: `	if s.how.Unordered || s.state == Prepared {
		return Effects{}
	}
	p := flushKey`,
		run: "TestTranscripts/barrier_prepared",
	},
	{
		number: 1, breaks: "a barrier lets the calls of its own epoch pass",
		file:   "internal/region/barriers.go",
		before: "t.sender != c.Sender.Address || c.Epoch < t.epoch && !c.Local",
		after:  "t.sender != c.Sender.Address || c.Epoch <= t.epoch && !c.Local",
		run:    "TestTranscripts/barrier_opens",
	},
	{
		number: 2, breaks: "the oldest barrier holds a call instead of the youngest",
		file:   "internal/region/barriers.go",
		before: "for _, t := range slices.Backward(g.closed) {",
		after:  "for _, t := range g.closed {",
		run:    "TestTranscripts/barriers_of_one_sender",
	},
	{
		number: 3, breaks: "a detour whose barrier timed out is not refused",
		file:   "internal/region/flushing.go",
		before: `		if !gone(t.via) {`,
		after:  `		if gone(t.via) {`,
		run:    "TestTranscripts/barrier_timed_out",
	},
	{
		number: 4, breaks: "late calls are not told apart by the departure that they take",
		file:   "internal/region/delivery.go",
		before: "return went == left && way == its",
		after:  "return went == left && (way == its || true)",
		run:    "TestTranscripts/forwarding",
	},
	{
		number: 5, breaks: "a Flush waits behind the barrier of its own epoch",
		file:   "internal/region/flushing.go",
		before: "(t.epoch < f.Epoch || t.epoch <= f.Hop)",
		after:  "(t.epoch <= f.Epoch || t.epoch <= f.Hop)",
		run:    "TestTranscripts/barriers_of_one_sender",
	},
	{
		number: 6, breaks: "a move does not wait for barriers",
		file: "internal/region/moving.go",
		before: `	if s.holdsBack() {
		s.pending`,
		after: `	if false && s.holdsBack() {
		s.pending`,
		run: "TestNoEntityBacksOffWhileTheShardIsToMove",
	},
	{
		number: 7, breaks: "stop hooks run although the move is cancelled",
		file:   "internal/region/stopping.go",
		before: "s.running > 0 || s.stops || s.moveE <= s.off",
		after:  "s.running > 0 || s.stops",
		run:    "TestTranscripts/cancel",
	},
	{
		number: 8, breaks: "Stopped sends the Init of an older move",
		file:   "internal/region/moving.go",
		before: "if drained && s.moveE == epoch && !s.active()",
		after:  "if drained && !s.active()",
		run:    "TestTranscripts/no_time_to_stop",
	},
	{
		number: 9, breaks: "Stopped sends Init although an entity is active",
		file:   "internal/region/moving.go",
		before: "if drained && s.moveE == epoch && !s.active()",
		after:  "if drained && s.moveE == epoch",
		run:    "TestTranscripts/active_after_stop",
	},
	{
		number: 10, breaks: "Ready is obeyed after the move was cancelled",
		file:   "internal/region/moving.go",
		before: "s.peer != from || s.moveE != epoch || epoch <= s.off",
		after:  "s.peer != from || s.moveE != epoch",
		run:    "TestTranscripts/ready_after_cancel",
	},
	{
		number: 11, breaks: "the state of a cancelled move is taken",
		file: "internal/region/placing.go",
		before: `case epoch <= s.off:
		return false, true`,
		after: `case epoch < s.off:
		return false, true`,
		run: "TestTranscripts/cancel_before",
	},
	{
		number: 12, breaks: "Open is taken from any node",
		file: "internal/region/placing.go",
		before: `	if s.state != Prepared || s.peer != from || s.moveE != epoch {
		return Effects{}
	}
	return s.open(`,
		after: `	if s.state != Prepared || s.moveE != epoch {
		return Effects{}
	}
	return s.open(`,
		run: "TestTranscripts/not_from_anybody",
	},
	{
		number: 13, breaks: "a move is cancelled although the shard is open under its epoch",
		file:   "internal/region/placing.go",
		before: "(s.state == Open || s.state == Forwarding) && s.epoch >= epoch",
		after:  "(s.state == Open || s.state == Forwarding) && s.epoch > epoch",
		run:    "TestTranscripts",
	},
	{
		number: 14, breaks: "a shard comes back under a lower epoch than it left",
		file:   "internal/region/placing.go",
		before: "if away && len(s.departures) > 0 && epoch < s.departures.last().epoch {",
		after:  "if away && false {",
		run:    "TestTranscripts",
	},
	{
		number: 15, breaks: "a shard that leaves does not follow when the table names its new home",
		file:   "internal/region/placing.go",
		before: `	if s.leaves() && home == s.peer && epoch == s.moveE {`,
		after:  `	if false {`,
		run:    "TestTurnOfALostShardKeepsItsEntity",
	},
	{
		number: 16, breaks: "refused detours stay over a time at another home",
		file: "internal/region/placing.go",
		before: `	if s.since != since { // it was elsewhere meanwhile
		s.barriers.refused = nil
	}
`,
		after: "",
		run:   "TestTranscripts",
	},
	{
		number: 17, breaks: "senders of former tenures count as direct",
		file:   "internal/region/placing.go",
		before: "func(_ transport.Address, e placement.Epoch) bool { return e < since }",
		after:  "func(_ transport.Address, e placement.Epoch) bool { return false }",
		run:    "TestDirectSendersAreForgottenWithTheirTenure",
	},
	{
		number: 18, breaks: "calls of before this tenure are taken",
		file:   "internal/region/delivery.go",
		before: "case direct && c.Epoch < s.since, direct && !went",
		after:  "case direct && !went",
		run:    "TestTranscripts",
	},
	{
		number: 19, breaks: "a call of the chain runs while stop hooks run",
		file:   "internal/region/delivery.go",
		before: "if !s.stops && c.Chain != nil && c.Chain.HoldsShard(s.id)",
		after:  "if c.Chain != nil && c.Chain.HoldsShard(s.id)",
		run:    "TestTranscripts",
	},
	{
		number: 20, breaks: "a turn may begin without the lock in a shard that is not open",
		file: "internal/region/turns.go",
		before: `	if in != Open {
		idle |= wanted
	}
`,
		after: "",
		run:   "TestEnter",
	},
	{
		number: 21, breaks: "calls of the epoch of a departure take it",
		file:   "internal/region/standing.go",
		before: "if d.epoch > e {",
		after:  "if d.epoch >= e {",
		run:    "TestTranscripts",
	},
	{
		number: 22, breaks: "Enter does not look at the barriers a second time",
		file:   "internal/region/entity.go",
		before: `	if e.shard.passable(epoch) {`,
		after:  `	if true {`,
		run:    "TestEnterLooksTwice",
	},
	{
		number: 23, breaks: "a route does not wait for acknowledgements",
		file:   "internal/stream/route.go",
		before: "if !local && acked < r.LastSeq {",
		after:  "if false {",
		run:    "TestTranscripts",
	},
	{
		number: 24, breaks: "held calls go before refused ones",
		file:   "internal/stream/route.go",
		before: "s.Deliver = append(r.refused, r.held...)",
		after:  "s.Deliver = append(r.held, r.refused...)",
		run:    "TestTranscripts",
	},
	{
		number: 25, breaks: "a route does not note that the former home has departed",
		file: "internal/stream/route.go",
		before: `		if r.via == departed {
			r.left = 0
		}
`,
		after: "",
		run:   "TestTranscripts",
	},
	{
		number: 26, breaks: "an acknowledgement goes out with the refusal, not after it",
		file:   "internal/stream/frames.go",
		before: `		ack = min(ack, q.list[i].refuses-1)`,
		after: `		if r := q.list[i].refuses; r > 0 {
			ack = min(ack, r)
		}
		_ = 0`,
		run: "TestExactlyOnceInOrder",
	},
	{
		number: 27, breaks: "one bounce counts twice",
		file:   "internal/stream/session.go",
		before: "f.first == first && sending > f.bounced && sending <= f.sends",
		after:  "f.first == first && sending <= f.sends",
		run:    "TestCrashUnacknowledged",
	},
	{
		number: 28, breaks: "calls that ran count as not executed after a goodbye",
		file:   "internal/stream/frames.go",
		before: "NotExecuted: bye && seq > q.handledTo || f.neverArrived()",
		after:  "NotExecuted: bye && seq > q.acked || f.neverArrived()",
		run:    "TestByeUnacknowledged",
	},
	{
		number: 29, breaks: "an envelope is changed in a frame that is being published",
		file:   "internal/stream/frames.go",
		before: "!f.neverArrived() || f.first == q.lent {",
		after:  "!f.neverArrived() {",
		run:    "TestVoidAfterBounce",
	},
	{
		number: 30, breaks: "a frame that is partly known is handled twice",
		file:   "internal/stream/session.go",
		before: "skip = uint32(p.received + 1 - h.Seq)",
		after:  "skip = 0",
		run:    "TestExactlyOnceInOrder",
	},
	{
		number: 31, breaks: "a peer that asks for everything again counts as one that forgot the session, whatever it has handled",
		gone: "the guess that a peer had lost its side of a session is gone, with the line: each side numbers its sessions (internal/stream/handshake.go), and TestDroppedPathRunsNothingTwice tests that",
	},
	{
		number: 32, breaks: "a claim does not rank by its move",
		file:   "internal/coordinator/recover.go",
		before: "func (c claim) rank() placement.Epoch { return max(c.Epoch, c.Move) }",
		after:  "func (c claim) rank() placement.Epoch { return c.Epoch }",
		run:    "TestSimulation",
	},
	{
		number: 33, breaks: "recovery ignores that the old home of a move is alive",
		file:   "internal/coordinator/recover.go",
		before: "case source >= 0 && c.alive(top[source].node):",
		after:  "case false:",
		run:    "TestSimulation",
	},
	{
		number: 34, breaks: "a shard whose new home is lost counts as lost at once",
		file: "internal/coordinator/move.go",
		before: `			m.become(askingOld)
			m.resendAt = c.now
`,
		after: `			c.lose(m, "lost")
`,
		run: "TestSimulation",
	},
	{
		number: 35, breaks: "MoveCancelled from any node ends a move",
		file:   "internal/coordinator/move.go",
		before: "case m.phase == askingNew && from == m.to:",
		after:  "case m.phase == askingNew:",
		run:    "TestTranscripts",
	},
	{
		number: 36, breaks: "recovery does not wait for unreachable nodes",
		file:   "internal/coordinator/member.go",
		before: "return m.alive() && m.Hosts && m.register == nil",
		after:  "return m.alive() && !m.Unreachable && m.Hosts && m.register == nil",
		run:    "TestTranscripts",
	},
	{
		number: 37, breaks: "a follower obeys lower terms",
		file: "internal/coordinator/follower.go",
		before: `		case -1:
			return Followed{Refused: true`,
		after: `		case -2:
			return Followed{Refused: true`,
		run: "TestFollower",
	},
	{
		number: 38, breaks: "a superseded coordinator still sends",
		file: "internal/coordinator/coordinator.go",
		before: `	if c.superseded {
		// The messages of this step`,
		after: `	if false {
		// The messages of this step`,
		run: "TestSupersededSendsNothing",
	},
	{
		number: 39, breaks: "HandOverDone is taken from any node",
		file: "internal/singleton/manager.go",
		before: `if m.asks() && m.older[from] != nil {
			delete`,
		after: `if m.asks() {
			delete`,
		run: "TestTranscripts",
	},
	{
		number: 40, breaks: "RemovalMargin is ignored",
		file:   "internal/singleton/manager.go",
		before: "past := !o.removed.IsZero() && !m.now.Before(o.removed.Add(m.config.RemovalMargin))",
		after:  "past := !o.removed.IsZero()",
		run:    "TestTranscripts",
	},
	{
		number: 41, breaks: "a manager that has handed off does not end",
		file: "internal/singleton/manager.go",
		before: `	m.become(End, transport.Address{}, why)
`,
		after: "",
		run:   "TestTranscripts",
	},
	{
		number: 42, breaks: "a manager hands off to a node that it sees as Down",
		file:   "internal/singleton/manager.go",
		before: "!known || o.Status == Down || !leaving",
		after:  "!known || o.Status == Down && false || !leaving",
		run:    "TestTranscripts/other-half-leaving",
	},
	{
		number: 43, breaks: "a lease that was ended is valid",
		file:   "internal/turnlease/lease.go",
		before: "return l.Phase() == Renewed && now < l.until.Load()",
		after:  "return now < l.until.Load()",
		run:    "TestLease",
	},
	{
		number: 44, breaks: "a lease lasts a second too long",
		file:   "internal/turnlease/lease.go",
		before: "return l.Phase() == Renewed && now < l.until.Load()",
		after:  "return l.Phase() == Renewed && now < l.until.Load()+int64(1e9)",
		run:    "TestLease",
	},
	{
		number: 45, breaks: "a remote call runs without a lease after a long activation",
		file: "runtime/running.go",
		before: `		if a, ok := s.leased(&r.turn); !ok { // the hook may have taken long
			return a
		}
`,
		after: "",
		run:   "TestNoTurnWhenTheLeaseEndsInOnActivate/of_a_call_from_elsewhere",
	},
	{
		number: 46, breaks: "a local call runs without a lease after a long activation",
		file: "runtime/hosted_shard.go",
		before: `	if err := s.waitLease(ctx); err != nil { // the hook may have taken long
		return nil, s.host.notRun(t.entity.ID, method, s.leaseError(err))
	}
`,
		after: "",
		run:   "TestNoTurnWhenTheLeaseEndsInOnActivate/of_a_call_from_here",
	},
	{
		number: 47, breaks: "callers of this process are answered without a lease",
		file:   "runtime/in_call.go",
		before: "if c.ID != 0 && own && !drv.watch.Valid(&drv.lease) && !drv.lease.MayAnswer() {",
		after:  "if false {",
		run:    "TestNoAnswerWithoutALease/to_a_caller_of_this_process",
	},
	{
		number: 48, breaks: "answers leave the process without a lease",
		file:   "internal/peers/stream.go",
		before: `			take = s.Core.TakeAck //`,
		after:  `			_ = s.Core.TakeAck //`,
		run:    "TestNothingLeavesWithoutALease",
	},
	{
		number: 49, breaks: "the coarse clock is trusted to the nanosecond",
		file:   "internal/runtoken/token.go",
		before: "return l.ValidAt(at + int64(coarseSlack))",
		after:  "return l.ValidAt(at)",
		run:    "TestCoarseClock",
	},
	{
		number: 50, breaks: "entities are passivated without a lease",
		file:   "runtime/host.go",
		before: "return !h.driver.closed() && h.driver.lease.Valid() }",
		after:  "return !h.driver.closed() }",
		run:    "TestNoPassivationWithoutALease",
	},
	{
		number: 51, breaks: "calls to a peer that said goodbye are answered as lost",
		file:   "internal/calls/plane.go",
		before: "return s.Peer().Address == a && !s.(Session).SaidGoodbye()",
		after:  "return s.Peer().Address == a",
		pkg:    "./runtime",
		run:    "TestGoodbyeEndsNoCall",
	},
}
