package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/conformance"
	"github.com/shardgen/shardgen/transport/memory"
)

func open(t *testing.T, b *memory.Broker, name string, onState func(transport.Channel, transport.State)) transport.Link {
	t.Helper()
	l, err := b.Transport().Open(t.Context(), transport.Options{
		Cluster: "c", Self: transport.Address{Name: name, Incarnation: 1}, Lanes: 1, OnState: onState,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func peer(name string) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: name, Incarnation: 1}}
}

// received takes all messages from lane 0, and returns them as words.
func received(l transport.Link) string {
	var words []string
	for m, ok := l.TryReceive(0); ok; m, ok = l.TryReceive(0) {
		word := string(m.Payload)
		if m.Kind == transport.Unreachable {
			word = fmt.Sprint("unreachable:", m.From.Name, ":", m.Token)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestFaults(t *testing.T) {
	ab, ba := memory.Path{From: "a", To: "b"}, memory.Path{From: "b", To: "a"}
	for _, test := range []struct {
		name  string
		steps func(b *memory.Broker, send func(from, to, words string))
		a, b  string // what each has received at the end
		lost  uint64
	}{
		{"none", func(_ *memory.Broker, send func(from, to, words string)) {
			send("a", "b", "1 2")
			send("b", "a", "3")
			send("a", "a", "4")
		}, "3 4", "1 2", 0},
		{"cut one way", func(b *memory.Broker, send func(from, to, words string)) {
			b.Cut(ab)
			send("a", "b", "1 2")
			send("b", "a", "3")
			b.Mend(ab)
			send("a", "b", "4")
		}, "3", "4", 2},
		{"cut all from a", func(b *memory.Broker, send func(from, to, words string)) {
			b.Cut(memory.Path{From: "a", To: memory.Any})
			send("a", "b", "1")
			send("a", "a", "2")
			send("b", "a", "3")
		}, "3", "", 2},
		{"cut all to b", func(b *memory.Broker, send func(from, to, words string)) {
			b.Cut(memory.Path{From: memory.Any, To: "b"})
			send("a", "b", "1")
			send("b", "b", "2")
			send("a", "a", "3")
		}, "3", "", 2},
		{"a cut hides that nobody is there", func(b *memory.Broker, send func(from, to, words string)) {
			b.Cut(memory.Path{From: memory.Any, To: memory.Any})
			send("a", "nobody", "1")
		}, "", "", 1},
		{"drop the next", func(b *memory.Broker, send func(from, to, words string)) {
			send("a", "b", "1")
			b.Drop(ab, 2)
			send("b", "a", "2")
			send("a", "b", "3 4 5")
		}, "2", "1 5", 2},
		{"hold and release", func(b *memory.Broker, send func(from, to, words string)) {
			b.Hold(ab)
			send("a", "b", "1 2")
			send("b", "b", "3")
			send("b", "a", "4")
			if n := b.Held(ab); n != 2 {
				panic(fmt.Sprint("held ", n))
			}
			if n := b.Release(ab); n != 2 {
				panic(fmt.Sprint("released ", n))
			}
			send("a", "b", "5")
		}, "4", "3 1 2 5", 0},
		{"mend releases", func(b *memory.Broker, send func(from, to, words string)) {
			b.Hold(ab)
			b.Hold(ba)
			send("a", "b", "1")
			send("b", "a", "2")
			b.Mend(ab)
		}, "", "1", 0},
		{"a drop within a hold", func(b *memory.Broker, send func(from, to, words string)) {
			b.Hold(ab)
			b.Drop(ab, 1)
			send("a", "b", "1 2")
			b.Release(ab)
		}, "", "2", 1},
		{"a restart loses what is held", func(b *memory.Broker, send func(from, to, words string)) {
			b.Hold(ab)
			send("a", "b", "1")
			b.Restart()
			send("a", "b", "2")
			b.Release(ab)
		}, "", "2", 0},
		{"disconnected", func(b *memory.Broker, send func(from, to, words string)) {
			send("a", "b", "1")
			b.Disconnect("b")
			send("a", "b", "2")
			b.Reconnect("b")
			send("a", "b", "3")
		}, "unreachable:b:9", "1 3", 0},
		{"released to a node that is gone", func(b *memory.Broker, send func(from, to, words string)) {
			b.Hold(ab)
			send("a", "b", "1")
			b.Disconnect("b")
			b.Release(ab)
		}, "unreachable:b:9", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := memory.NewBroker(memory.Options{})
			links := map[string]transport.Link{"a": open(t, b, "a", nil), "b": open(t, b, "b", nil)}
			test.steps(b, func(from, to, words string) {
				for _, w := range strings.Fields(words) {
					if err := links[from].Send(0, peer(to), 9, []byte(w)); err != nil {
						t.Fatal(err)
					}
				}
			})
			if got := received(links["a"]); got != test.a {
				t.Errorf("a received %q, want %q", got, test.a)
			}
			if got := received(links["b"]); got != test.b {
				t.Errorf("b received %q, want %q", got, test.b)
			}
			if n := b.Lost(); n != test.lost {
				t.Errorf("%d lost, want %d", n, test.lost)
			}
		})
	}
}

func TestBroadcastAndAnycastMeetFaults(t *testing.T) {
	b := memory.NewBroker(memory.Options{})
	a, other := open(t, b, "a", nil), open(t, b, "b", nil)
	for _, l := range []transport.Link{a, other} {
		if err := l.Serve(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	b.Cut(memory.Path{From: "a", To: "b"})
	if err := a.Broadcast([]byte("all")); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := a.Anycast(1, []byte("any")); err != nil {
			t.Fatal(err)
		}
	}
	if m, ok := other.TryReceive(transport.Control); ok {
		t.Errorf("b received %q through a cut", m.Payload)
	}
	n := 0
	for _, ok := a.TryReceive(transport.Control); ok; _, ok = a.TryReceive(transport.Control) {
		n++
	}
	if uint64(n)+b.Lost() != 22 || b.Lost() < 2 {
		t.Errorf("a received %d and %d were lost, want 22 together and anycasts among the lost", n, b.Lost())
	}
}

// TestAnycastHeldUntilNotServed: if the chosen member stops serving while a fault holds an Anycast,
// another serving member gets it. If there is none, it is refused.
func TestAnycastHeldUntilNotServed(t *testing.T) {
	b := memory.NewBroker(memory.Options{})
	a, other, third := open(t, b, "a", nil), open(t, b, "b", nil), open(t, b, "c", nil)
	ab := memory.Path{From: "a", To: "b"}
	held := func(thirdServes bool) {
		t.Helper()
		if err := errors.Join(other.Serve(t.Context(), true), third.Serve(t.Context(), false)); err != nil {
			t.Fatal(err)
		}
		b.Hold(ab)
		if err := a.Anycast(9, []byte("any")); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(other.Serve(t.Context(), false), third.Serve(t.Context(), thirdServes)); err != nil {
			t.Fatal(err)
		}
		if n := b.Release(ab); n != 1 {
			t.Fatalf("released %d, want 1", n)
		}
	}
	held(true)
	if m, _ := third.TryReceive(transport.Control); string(m.Payload) != "any" {
		t.Errorf("the serving member received kind %d %q, want any", m.Kind, m.Payload)
	}
	if m, ok := a.TryReceive(transport.Control); ok {
		t.Errorf("a received %+v although another member serves", m)
	}
	held(false)
	if m, ok := other.TryReceive(transport.Control); ok {
		t.Errorf("b received kind %d %q, want nothing", m.Kind, m.Payload)
	}
	if m, _ := a.TryReceive(transport.Control); m.Kind != transport.Unreachable || m.Token != 9 || !m.From.IsZero() {
		t.Errorf("a received %+v, want unreachable with token 9 from nobody", m)
	}
}

// The same seed loses the same messages each time; a different seed loses different ones.
func TestLoseIsDeterministic(t *testing.T) {
	run := func(seed uint64) (got string, lost uint64) {
		b := memory.NewBroker(memory.Options{Seed: seed})
		p := memory.Path{From: "a", To: memory.Any}
		b.Lose(p, 0.3)
		a, to := open(t, b, "a", nil), open(t, b, "b", nil)
		for i := range 1000 {
			if err := a.Send(0, peer("b"), 0, fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		return received(to), b.Lost()
	}
	first, lost := run(1)
	again, _ := run(1)
	other, _ := run(2)
	if first != again {
		t.Error("one seed gave two outcomes")
	}
	if first == other {
		t.Error("two seeds gave one outcome")
	}
	if lost < 200 || lost > 400 {
		t.Errorf("%d of 1000 lost at 0.3", lost)
	}
}

func TestQueueFull(t *testing.T) {
	b := memory.NewBroker(memory.Options{QueueLength: 2})
	a := open(t, b, "a", nil)
	for i := range 5 {
		if err := a.Send(0, peer("a"), 0, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := received(a); got != "0 1" {
		t.Errorf("received %q, want 0 1", got)
	}
	if n := a.(transport.Counter).Counts(0); n.Dropped != 3 {
		t.Errorf("counts %+v, want 3 dropped", n)
	}
	self := memory.Path{From: "a", To: "a"}
	b.Hold(self)
	for i := range 5 {
		if err := a.Send(0, peer("a"), 0, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if b.Held(self) != 2 || b.Lost() != 3 {
		t.Errorf("%d held and %d lost, want 2 and 3", b.Held(self), b.Lost())
	}
}

// OnState is called once for each change, in order. A send inside the call that reports the
// reconnect succeeds.
func TestStates(t *testing.T) {
	b := memory.NewBroker(memory.Options{Name: "x"})
	var told []string
	var a transport.Link
	a = open(t, b, "a", func(ch transport.Channel, s transport.State) {
		if ch != 0 {
			return
		}
		told = append(told, s.Server)
		if a == nil {
			return // inside Open
		}
		err := a.Send(0, peer("a"), 0, []byte(s.Server))
		if s.Connected != (err == nil) || err != nil && !errors.Is(err, transport.ErrDisconnected) {
			t.Errorf("send inside OnState(%+v): error %v", s, err)
		}
	})
	b.Restart()
	b.Disconnect("a")
	b.Stop()
	b.Reconnect("a")
	b.Start()
	if got, want := fmt.Sprintf("%q", told), `["x-1" "" "x-2" "" "x-3"]`; got != want {
		t.Errorf("OnState got %s, want %s", got, want)
	}
	if got := received(a); got != "x-2 x-3" {
		t.Errorf("received %q, want x-2 x-3", got)
	}
}

// After a break nothing is sent until OnState has returned, even if the broker came back long
// before.
func TestNothingSentBeforeBreakIsTold(t *testing.T) {
	b := memory.NewBroker(memory.Options{})
	told, carryOn := make(chan struct{}), make(chan struct{})
	first := true
	a := open(t, b, "a", func(ch transport.Channel, s transport.State) {
		if ch == 0 && !s.Connected && first {
			first = false
			close(told)
			<-carryOn
		}
	})
	stopped := make(chan struct{})
	go func() {
		b.Stop()
		close(stopped)
	}()
	<-told
	b.Start()
	if !a.State(0).Connected {
		t.Error("the broker is back and the link disconnected")
	}
	if err := a.Send(0, peer("a"), 0, nil); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("sent while OnState runs: error %v, want disconnected", err)
	}
	close(carryOn)
	<-stopped
	if err := a.Send(0, peer("a"), 0, nil); err != nil {
		t.Errorf("sent after OnState: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	b := memory.NewBroker(memory.Options{})
	open(t, b, "a", nil)
	o := transport.Options{Cluster: "c", Self: peer("a").Address, Lanes: 1}
	if _, err := b.Transport().Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "already has a link") {
		t.Errorf("second link of one address: error %v", err)
	}
	b.Disconnect("d")
	o.Self.Name = "d"
	if _, err := b.Transport().Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "Reconnect") {
		t.Errorf("link of a disconnected node: error %v", err)
	}
}

// Open waits for a broker that is down, in virtual time too.
func TestOpenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBroker(memory.Options{})
		b.Stop()
		o := transport.Options{Cluster: "c", Self: peer("a").Address, Lanes: 1}
		began := time.Now()
		if _, err := b.Transport().Open(t.Context(), o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want deadline exceeded", err)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("gave up after %v, want 5s", d)
		}
		time.AfterFunc(time.Second, b.Start)
		l, err := b.Transport().Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	})
}

func ExampleBroker() {
	b := memory.NewBroker(memory.Options{Seed: 1})
	open := func(name string) transport.Link {
		l, err := b.Transport().Open(context.Background(), transport.Options{
			Cluster: "shop", Self: transport.Address{Name: name, Incarnation: 1}, Lanes: 1,
		})
		if err != nil {
			panic(err)
		}
		return l
	}
	web, db := open("web"), open("db")
	to := transport.Peer{Address: transport.Address{Name: "db", Incarnation: 1}}

	b.Drop(memory.Path{From: "web", To: "db"}, 1)
	_ = web.Send(0, to, 1, []byte("lost"))
	_ = web.Send(0, to, 2, []byte("kept"))
	m, _ := db.Receive(0)
	fmt.Printf("%s, %d lost\n", m.Payload, b.Lost())

	_ = db.Close()
	_ = web.Send(0, to, 3, []byte("anybody?"))
	m, _ = web.Receive(0)
	fmt.Println(m.Kind == transport.Unreachable, m.From, m.Token, m.Server)
	// Output:
	// kept, 1 lost
	// true db#0000000000000001 3 memory-1
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(*testing.T) conformance.Harness {
		b := memory.NewBroker(memory.Options{})
		return conformance.Harness{Transport: b.Transport(), StopBroker: b.Stop, StartBroker: b.Start}
	})
}

func TestMain(m *testing.M) { conformance.Main(m) }
