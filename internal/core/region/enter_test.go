package region

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// opened returns an open shard with a live and idle entity "x".
func opened(l Limits) (*Shard, *Entity) {
	s := New(placement.ShardID{Kind: "K", Shard: 1}, node("a"), l)
	s.Direct(true)
	s.Place(node("a"), 10, false, 0, time.Unix(0, 0))
	e := s.Begin("x", 1)
	e.Value = "value"
	s.End(e, 1)
	return s, e
}

// TestEnter: a turn begins outside the lock only if all conditions hold. Otherwise Enter leaves
// nothing behind.
func TestEnter(t *testing.T) {
	at := time.Unix(0, 0)
	barrier := func(s *Shard) { s.CloseBarrier(node("a"), node("b"), 10, false, 0, at) }
	opens := func(s *Shard) { s.OpenBarriers(func(transport.Address) bool { return true }, 1, at) }
	tests := []struct {
		name string
		do   func(s *Shard, e *Entity)
		want Entry
	}{
		{"nothing", func(*Shard, *Entity) {}, Entered},
		{"a turn is under way", func(s *Shard, _ *Entity) { s.Begin("x", 1) }, Refused},
		{"a turn of its own kind is under way", func(_ *Shard, e *Entity) { e.Enter(1, 0) }, Refused},
		{"a turn has ended", func(s *Shard, _ *Entity) { s.End(s.Begin("x", 1), 1) }, Entered},
		{"passivated", func(s *Shard, _ *Entity) {
			for _, e := range s.Idle(2, 1) {
				e.Value = nil
				e.SetState([]byte("state"), codegen.Reactivated)
				s.End(e, 1)
			}
		}, Refused},
		{"a barrier is closed", func(s *Shard, _ *Entity) { barrier(s) }, Refused},
		{"a barrier has opened", func(s *Shard, _ *Entity) { barrier(s); opens(s) }, Entered},
		{"one of two barriers has opened", func(s *Shard, _ *Entity) {
			barrier(s)
			s.CloseBarrier(node("c"), node("d"), 10, false, 0, at)
			s.OpenBarriers(func(a transport.Address) bool { return a == node("b") }, 1, at)
		}, Refused},
		{"barriers were given up", func(s *Shard, _ *Entity) { barrier(s); s.Dismiss() }, Entered},
		{"calls are not direct", func(s *Shard, _ *Entity) { s.Direct(false) }, Refused},
		{"nor with a barrier that has opened", func(s *Shard, _ *Entity) { s.Direct(false); barrier(s); opens(s) }, Refused},
		{"calls are direct again", func(s *Shard, _ *Entity) { s.Direct(false); s.Direct(true) }, Entered},
		{"draining", func(s *Shard, _ *Entity) { s.BeginMove(node("b"), 11) }, Refused},
		{"draining was called off", func(s *Shard, _ *Entity) {
			s.BeginMove(node("b"), 11)
			s.CancelMove(11)
			s.Place(node("a"), 12, false, 1, at)
			s.End(s.Begin("x", 1), 1) // one call finds the way free
		}, Entered},
		{"lost", func(s *Shard, _ *Entity) { s.Place(node("b"), 11, false, 1, at) }, Refused},
		{"draining during its turn, which has ended", func(s *Shard, e *Entity) {
			s.Begin("x", 1)
			s.BeginMove(node("b"), 11)
			s.End(e, 1)
		}, Refused},
		{"lost during its turn, which has ended", func(s *Shard, e *Entity) {
			s.Begin("x", 1)
			s.Place(node("b"), 11, false, 1, at)
			s.End(e, 1)
		}, Refused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, e := opened(Limits{Mailbox: 2, Waiting: 2})
			tt.do(s, e)
			was := e.Busy()
			got := e.Enter(1, 0)
			if got != tt.want {
				t.Errorf("Enter = %v, want %v (flags %b)", got, tt.want, e.word.Load()&flags)
			}
			if got == Refused && e.Busy() != was {
				t.Errorf("busy is %v, and was %v before", e.Busy(), was)
			}
		})
	}
}

// TestEnterLooksTwice: if the shard is barred between Enter's first look at the shard and the
// beginning of its turn, the second look sees it, and the turn is taken back.
func TestEnterLooksTwice(t *testing.T) {
	at := time.Unix(0, 0)
	barrier := func(s *Shard, _ *Entity) { s.CloseBarrier(node("a"), node("b"), 10, false, 0, at) }
	tests := []struct {
		name string
		do   func(s *Shard, e *Entity)
		want Entry
		busy bool
	}{
		{"nothing", func(*Shard, *Entity) {}, Entered, true},
		{"a barrier is closed", barrier, Refused, false},
		{"calls are not direct any more", func(s *Shard, _ *Entity) { s.Direct(false) }, Refused, false},
		{"a barrier is closed, and a call waits for the turn", func(s *Shard, e *Entity) {
			s.Deliver(&Call{Entity: "x", Sender: transport.Peer{Address: node("c")}, Epoch: 10}, 1, at)
			barrier(s, e)
		}, Withdrawn, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, e := opened(Limits{Mailbox: 2, Waiting: 2})
			w := e.word.Load()
			e.word.Store(w | busy) // the first half of Enter
			tt.do(s, e)
			if got := e.entered(w, w|busy); got != tt.want || e.Busy() != tt.busy {
				t.Errorf("entered = %v, busy %v, want %v, %v", got, e.Busy(), tt.want, tt.busy)
			}
		})
	}
}

// TestJoin: a tell joins a turn of tells if nothing waits for the turn's end. It joins no other
// turn.
func TestJoin(t *testing.T) {
	at := time.Unix(0, 0)
	local := func() *Call { return &Call{Entity: "x", Local: true, Sender: transport.Peer{Address: node("a")}} }
	join := func(n int) func(*Shard, *Entity) {
		return func(_ *Shard, e *Entity) {
			for range n {
				e.Join(n, 1)
			}
		}
	}
	tests := []struct {
		name  string
		do    func(s *Shard, e *Entity)
		most  int
		want  Entry
		tells int
	}{
		{"idle", func(*Shard, *Entity) {}, 2, Entered, 1},
		{"idle, to be joined by others only", func(*Shard, *Entity) {}, 0, Entered, 1},
		{"one runs", join(1), 2, Entered, 2},
		{"one runs, and none may wait", join(1), 0, Refused, 1},
		{"one runs and one waits", join(2), 2, Entered, 3},
		{"one runs and two wait", join(3), 2, Full, 3},
		{"two wait, and a barrier is closed", func(s *Shard, e *Entity) {
			join(3)(s, e)
			s.CloseBarrier(node("a"), node("b"), 10, false, 0, at)
		}, 2, Refused, 3},
		{"a turn of a call", func(_ *Shard, e *Entity) { e.Enter(1, 0) }, 2, Refused, 0},
		{"a turn under the lock", func(s *Shard, _ *Entity) { s.Begin("x", 1) }, 2, Refused, 0},
		{"a call waits", func(s *Shard, e *Entity) { e.Join(2, 1); s.Deliver(local(), 1, at) }, 2, Refused, 1},
		{"turns were counted", func(s *Shard, e *Entity) { e.Join(2, 1); s.WatchRunning() }, 2, Refused, 1},
		{"the shard drains", func(s *Shard, e *Entity) { e.Join(2, 1); s.BeginMove(node("b"), 11) }, 2, Refused, 1},
		{"the shard was lost", func(s *Shard, e *Entity) { e.Join(2, 1); s.Place(node("b"), 11, false, 1, at) }, 2, Refused, 1},
		{"calls are not direct", func(s *Shard, e *Entity) { e.Join(2, 1); s.Direct(false) }, 2, Refused, 1},
		{"an earlier tell has ended", func(s *Shard, e *Entity) { join(2)(s, e); e.Leave(1) }, 2, Entered, 2},
		{"all have ended", func(s *Shard, e *Entity) { join(2)(s, e); e.Leave(1); e.Leave(1) }, 2, Entered, 1},
		{"an earlier tell has ended without a value", func(s *Shard, e *Entity) {
			join(2)(s, e)
			e.Value = nil
			e.Leave(1)
		}, 2, Refused, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, e := opened(Limits{Mailbox: 2, Waiting: 2})
			tt.do(s, e)
			if got := e.Join(tt.most, 1); got != tt.want {
				t.Errorf("Join = %v, want %v (flags %b)", got, tt.want, e.word.Load()&flags)
			}
			if got := tells(e.word.Load()); got != tt.tells {
				t.Errorf("%d tells, want %d", got, tt.tells)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestJoinLooksTwice: if the shard is barred between Join's two looks at it, the tell is taken
// back. The turn goes on if it has other tells, and ends if not.
func TestJoinLooksTwice(t *testing.T) {
	at := time.Unix(0, 0)
	bar := func(s *Shard) { s.Direct(false) }
	waits := func(s *Shard) {
		s.Deliver(&Call{Entity: "x", Sender: transport.Peer{Address: node("c")}, Epoch: 10}, 1, at)
		s.Direct(false)
	}
	tests := []struct {
		name   string
		before int // tells that have joined before
		do     func(s *Shard)
		want   Entry
		tells  int
		busy   bool
	}{
		{"nothing", 0, func(*Shard) {}, Entered, 1, true},
		{"calls are not direct any more", 0, bar, Refused, 0, false},
		{"calls are not direct any more, and another tell runs", 1, bar, Refused, 1, true},
		{"a call waits for the turn", 0, waits, Withdrawn, 0, true},
		{"a call waits for the turn, and another tell runs", 1, waits, Refused, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, e := opened(Limits{Mailbox: 2, Waiting: 2})
			for range tt.before {
				e.Join(1, 1)
			}
			e.word.Store((e.word.Load() + oneTell) | busy | told) // the first half of Join
			tt.do(s)
			if got := e.joined(); got != tt.want || e.Busy() != tt.busy || tells(e.word.Load()) != tt.tells {
				t.Errorf("joined = %v, busy %v, %d tells, want %v, %v, %d", got, e.Busy(), tells(e.word.Load()), tt.want, tt.busy, tt.tells)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTellsCountInTheMailbox: tells that have joined a turn take the room of calls that wait.
func TestTellsCountInTheMailbox(t *testing.T) {
	deliver := func(s *Shard, size int) (Verdict, Bound) {
		c := &Call{Entity: "x", Sender: transport.Peer{Address: node("c")}, Epoch: 10, Size: size}
		_, v := s.Deliver(c, 1, time.Unix(0, 0))
		return v, c.Full
	}
	s, e := opened(Limits{Mailbox: 3, Waiting: 2})
	for range 3 { // one runs, two wait
		e.Join(2, 1)
	}
	if v, _ := deliver(s, 1); v != Queued || e.Mailbox() != 3 || s.Queued() != 3 {
		t.Errorf("the third that waits: %v, %d in the mailbox, %d queued", v, e.Mailbox(), s.Queued())
	}
	if v, full := deliver(s, 1); v != Overloaded || full != MailboxCalls {
		t.Errorf("the fourth that waits: %v, %v", v, full)
	}
	s, e = opened(Limits{Mailbox: 9, Waiting: 2, MailboxBytes: 3 * TellBytes})
	for range 3 {
		e.Join(2, 1)
	}
	if v, full := deliver(s, TellBytes+1); v != Overloaded || full != MailboxBytes {
		t.Errorf("more bytes than are left: %v, %v", v, full)
	}
	if v, _ := deliver(s, TellBytes); v != Queued {
		t.Errorf("as many bytes as are left: %v", v)
	}
}

// TestWatchRunning: turns that began outside the lock are counted, and must end under the lock.
func TestWatchRunning(t *testing.T) {
	s, e := opened(Limits{Mailbox: 2, Waiting: 2})
	if e.Enter(1, 0) != Entered {
		t.Fatal("no turn")
	}
	if n := s.WatchRunning(); n != 1 {
		t.Errorf("%d turns, want 1", n)
	}
	if left, _ := e.Leave(7); left {
		t.Error("it ended outside the lock")
	}
}

// TestLeave: a turn ends outside the lock only if nobody waits for its end.
func TestLeave(t *testing.T) {
	at := time.Unix(0, 0)
	tests := []struct {
		name string
		do   func(s *Shard, e *Entity)
		want bool
	}{
		{"nothing", func(*Shard, *Entity) {}, true},
		{"a call waits", func(s *Shard, _ *Entity) {
			s.Deliver(&Call{Entity: "x", Local: true, Sender: transport.Peer{Address: node("a")}}, 1, at)
		}, false},
		{"turns were counted", func(s *Shard, _ *Entity) { s.WatchRunning() }, false},
		{"the shard drains", func(s *Shard, _ *Entity) { s.BeginMove(node("b"), 11) }, false},
		{"the shard was lost", func(s *Shard, _ *Entity) { s.Place(node("b"), 11, false, 1, at) }, false},
		{"a barrier is closed", func(s *Shard, _ *Entity) { s.CloseBarrier(node("a"), node("b"), 10, false, 0, at) }, true},
		{"it has no value any more", func(_ *Shard, e *Entity) { e.Value = nil }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, e := opened(Limits{Mailbox: 2, Waiting: 2})
			if e.Enter(1, 0) != Entered {
				t.Fatal("no turn")
			}
			tt.do(s, e)
			if got, _ := e.Leave(7); got != tt.want {
				t.Errorf("Leave = %v, want %v", got, tt.want)
			}
			if e.Busy() == tt.want {
				t.Errorf("busy is %v after that", e.Busy())
			}
			if used := lastUsed(e.word.Load()); tt.want && used != 7 {
				t.Errorf("last used at %d, want 7", used)
			}
		})
	}
}

// TestGoneEntitiesHoldNothing: callers may keep an entity whose shard has left, because it holds
// nothing.
func TestGoneEntitiesHoldNothing(t *testing.T) {
	at := time.Unix(0, 0)
	for name, leave := range map[string]func(s *Shard){
		"moved": func(s *Shard) {
			s.BeginMove(node("b"), 11)
			entities, _ := s.Stop()
			for _, e := range entities {
				e.Value = nil
				e.SetState([]byte("state"), codegen.Reactivated)
			}
			s.Stopped(11, 1)
			s.Ready(node("b"), 11)
		},
		"lost": func(s *Shard) { s.Place(node("b"), 11, false, 1, at) },
	} {
		s, e := opened(Limits{Mailbox: 1, Waiting: 1})
		p := s.Begin("passive", 1)
		p.SetState([]byte("state"), codegen.Reactivated)
		s.End(p, 1)
		leave(s)
		if s.Entities() != 0 || e.Value != nil || e.State() != nil || p.State() != nil {
			t.Errorf("%s: %d entities left; live %v %q, passive %q: want nothing", name, s.Entities(), e.Value, e.State(), p.State())
		}
	}
}
