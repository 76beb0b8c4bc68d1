package membership

import (
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/gossip/gossiptest"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// TestRefused: a message that a member does not obey is reported with its reason, and changes
// nothing.
func TestRefused(t *testing.T) {
	w := newNetwork(t)
	for i, name := range []string{"a", "b"} {
		n := w.add(name, "s1", core.Config{Cluster: "test", Self: addr(name, uint64(i+1))})
		n.quiet = true
		w.start(n)
	}
	a, b := w.nodes["a"], w.nodes["b"]
	if !w.run(2*time.Second, func() bool { return w.converged([]*simNode{a, b}) }) {
		t.Fatal("the cluster did not form")
	}
	w.step(a, core.DownNode{Node: addr("x", 9)}) // nobody: no harm
	state := a.machine.node.Gossip
	self, other := a.config.Self, b.config.Self
	changed := func(change func(*gossip.State)) *gossip.State { return state.ChangedBy(other, change) }
	without := func(g *gossip.State, node transport.Address) *gossip.State {
		next := g.Clone()
		next.Members = nil
		for _, r := range g.Members {
			if r.Address != node {
				next.Members = append(next.Members, r)
			}
		}
		next.Version, next.Seen = next.Version.Prune(next.Forgotten), gossip.NewSeenSet(len(next.Members))
		return next
	}
	foreign := state.Clone()
	foreign.Founder = addr("z", 77)
	overflow := state.Clone()
	overflow.UpCounter = 1 << 31
	for _, test := range []struct {
		name string
		from transport.Address
		msg  message.Message
		in   core.Receive
		want core.Refusal
	}{
		{name: "a good one", from: other, msg: message.Gossip{Target: message.TargetOf(self), State: state}, want: core.NotRefused},
		{name: "for an old incarnation", from: other, msg: message.Gossip{Target: 99, State: state}, want: core.RefusedTarget},
		{name: "a heartbeat for an old incarnation", from: other, msg: message.Heartbeat{Target: 99}, want: core.RefusedTarget},
		{name: "a removal of an old incarnation", from: other, msg: message.Removal{Target: 99}, want: core.RefusedTarget},
		{name: "a join at an old incarnation", from: addr("x", 1), msg: message.Join{Target: 99}, want: core.RefusedTarget},
		{name: "of another cluster", from: other, msg: message.Gossip{Target: message.TargetOf(self), State: foreign}, want: core.RefusedCluster},
		{name: "without this node", from: other, msg: message.Gossip{Target: message.TargetOf(self), State: without(state, self)}, want: core.RefusedStale},
		{name: "without its sender", from: addr("x", 3), msg: message.Gossip{Target: message.TargetOf(self), State: state}, want: core.RefusedStranger},
		{name: "no state", from: other, msg: message.Gossip{Target: message.TargetOf(self), State: nil}, want: core.RefusedMalformed},
		{name: "counters about to overflow", from: other, msg: message.Gossip{Target: message.TargetOf(self), State: overflow}, want: core.RefusedMalformed},
		{name: "an Up member without an age", from: other, msg: message.Gossip{Target: message.TargetOf(self), State: changed(func(g *gossip.State) {
			r, _ := g.Member(other)
			r.UpNumber = 0
			g.SetMember(r)
		})}, want: core.RefusedMalformed},
		{name: "one that waited", from: other, msg: message.Gossip{Target: message.TargetOf(self), State: state}, in: core.Receive{Waited: time.Minute}, want: core.RefusedLate},
	} {
		in := test.in
		in.From, in.Message = test.from, test.msg
		before := gossiptest.Normal(a.machine.node.Gossip)
		if got := a.machine.Step(w.now, in).Refused; got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		if after := gossiptest.Normal(a.machine.node.Gossip); test.want != core.NotRefused && after != before {
			t.Errorf("%s: refused, and changed the state from\n%s to\n%s", test.name, before, after)
		}
	}
	a.machine.Step(w.now, core.DownNode{Node: other})
	if got := a.machine.Step(w.now, core.Receive{From: other, Message: message.Heartbeat{Target: message.TargetOf(self)}}).Refused; got != core.RefusedOutcast {
		t.Errorf("from a downed member: got %q, want %q", got, core.RefusedOutcast)
	}
	if all := core.Refusals(); all[0] != core.RefusedTarget || all[len(all)-1] != core.RefusedMalformed {
		t.Errorf("got refusals %v, want all from the first to the last", all)
	}
}

// TestLargeDescription: a node is not admitted, and gets the reason, if the state with its
// description would not fit in a message.
func TestLargeDescription(t *testing.T) {
	w := newNetwork(t)
	a := w.add("a", "s1", core.Config{Cluster: "test", Self: addr("a", 1)})
	w.start(a)
	w.run(time.Second, nil)
	large := message.Join{Target: 1, Meta: []gossip.KeyValue{{Key: "k", Value: strings.Repeat("x", gossip.MaxDescription)}}}
	out := a.machine.Step(w.now, core.Receive{From: addr("x", 2), Message: large})
	if len(out.Send) != 1 {
		t.Fatalf("got %d messages, want a refusal: %v", len(out.Send), out.Send)
	}
	refused, ok := out.Send[0].Message.(message.JoinRefused)
	if !ok || !refused.Final || !strings.Contains(refused.Reason, "want at most 65536") {
		t.Errorf("got %v, want a final refusal that names the bound", out.Send[0].Message)
	}
	if _, ok := a.machine.node.Gossip.Member(addr("x", 2)); ok {
		t.Error("it was admitted")
	}
}

// formed returns a cluster of nodes at one server.
func formed(t *testing.T, names ...string) (w *network, nodes []*simNode) {
	t.Helper()
	w = newNetwork(t)
	for i, name := range names {
		n := w.add(name, "s1", core.Config{Cluster: "test", Self: addr(name, uint64(i+1))})
		n.quiet = true
		w.start(n)
		nodes = append(nodes, n)
	}
	if !w.run(3*time.Second, func() bool { return w.converged(nodes) }) {
		t.Fatal("the cluster did not form")
	}
	return w, nodes
}

// TestLeftWhileItStays: a node that did not leave and gets the message that it has left was
// removed, so it ends like a downed one. A node that leaves ends in order.
func TestLeftWhileItStays(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		w, nodes := formed(t, "a", "b")
		a, b := nodes[0], nodes[1]
		if leaves {
			a.machine.Step(w.now, core.Leave{})
		}
		out := a.machine.Step(w.now, core.Receive{From: b.config.Self, Message: message.Removal{Target: message.TargetOf(a.config.Self), Left: true}})
		var downed, removed bool
		for _, e := range out.Events {
			switch e := e.(type) {
			case core.SelfDowned:
				downed = strings.Contains(e.Reason, "b says that this node left")
			case core.SelfRemoved:
				removed = true
			}
		}
		if downed == leaves || removed != leaves {
			t.Errorf("leaves %t: downed %t, removed %t: %v", leaves, downed, removed, out.Events)
		}
	}
}

// TestLeftWithoutKnowing: two of three members leave, and a partition keeps from them that they are
// Exiting. They have a majority of the view that they know, so the third must not go on alone.
func TestLeftWithoutKnowing(t *testing.T) {
	w, nodes := formed(t, "a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	parted := false
	w.lossy = func(from, to *simNode) bool {
		r, ok := a.machine.node.Gossip.Member(b.config.Self)
		parted = parted || !ok || r.Status == gossip.Exiting
		return parted && (from == a || to == a)
	}
	for _, n := range []*simNode{b, c} {
		w.step(n, core.Leave{})
		w.step(n, core.ExitReady{})
	}
	w.run(time.Minute, nil) // each step checks that nobody runs turns whom another has fenced
	if !parted {
		t.Error("nobody became Exiting")
	}
	if tomb, ok := a.machine.node.Gossip.Tombstone(b.config.Self); ok {
		t.Errorf("a removed b, which did not know that it was Exiting: %+v", tomb)
	}
}

// TestAloneAfterALapse: two members come back after the third has removed them, and down it while it
// is cut off. When its messages arrive again, it runs no turns before it learns of this.
func TestAloneAfterALapse(t *testing.T) {
	w, nodes := formed(t, "a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	w.unsafe = true // a has fenced b and c, but when both come back, they are a majority of the view that they know
	w.disconnect(b)
	w.disconnect(c)
	if !w.run(10*time.Second, func() bool { return w.converged([]*simNode{a}) }) {
		t.Fatal("a does not go on alone")
	}
	a.deaf, a.mute = true, true
	w.connect(b)
	w.connect(c)
	if !w.run(time.Minute, func() bool { return w.converged([]*simNode{b, c}) }) {
		t.Fatal("b and c do not go on without a")
	}
	healed := w.now
	w.watch = func(*simNode) {
		if a.machine.Lease().After(w.now) {
			t.Errorf("%v after its messages arrive again, a runs turns", w.now.Sub(healed))
		}
	}
	a.deaf, a.mute = false, false
	if !w.run(5*time.Second, func() bool { return a.machine.node.Phase == core.Ended }) {
		t.Error("a has not learned that it was downed")
	}
}
