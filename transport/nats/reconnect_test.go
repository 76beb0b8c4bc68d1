package natstransport_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// openStates opens a link and returns a channel with the states of lane 0.
func openStates(t *testing.T, url string, opts ...natstransport.Option) (transport.Link, <-chan transport.State) {
	t.Helper()
	states := make(chan transport.State, 100)
	o := optionsOf(nodeA)
	o.OnState = func(ch transport.Channel, s transport.State) {
		if ch == 0 {
			states <- s
		}
	}
	return openWith(t, url, o, opts...), states
}

func wantState(t *testing.T, states <-chan transport.State, connected bool) transport.State {
	t.Helper()
	select {
	case s := <-states:
		if s.Connected != connected {
			t.Fatalf("told %+v, want connected=%v", s, connected)
		}
		return s
	case <-time.After(patience):
		t.Fatalf("not told connected=%v in %v", connected, patience)
		return transport.State{}
	}
}

// After a break nothing is sent until OnState has returned, even if the broker came back long
// before.
func TestNothingSentBeforeBreakIsTold(t *testing.T) {
	s := natsproc.Start(t)
	told, carryOn := make(chan struct{}), make(chan struct{})
	restored := make(chan transport.State, 1)
	o := optionsOf(nodeA)
	first := true
	o.OnState = func(ch transport.Channel, s transport.State) {
		switch {
		case ch != 0:
		case !s.Connected:
			close(told)
			<-carryOn
		case first:
			first = false
		default:
			restored <- s
		}
	}
	a := openWith(t, s.URL(), o)
	other := openLink(t, s.URL(), transport.Address{Name: "b"})
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	<-told
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for !other.State(0).Connected { // the broker takes connections again
		if err := other.Flush(t.Context(), 0); err != nil && !errors.Is(err, transport.ErrDisconnected) {
			t.Fatal(err)
		}
	}
	self := transport.Peer{Address: nodeA}
	if err := a.Send(0, self, 0, nil); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("sent while OnState runs: error %v, want disconnected", err)
	}
	close(carryOn)
	select {
	case <-restored:
	case <-time.After(patience):
		t.Fatal("not reconnected")
	}
	if err := a.Send(0, self, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, 0, transport.Direct, "x")
}

// Pings notice a server that stands still. A sender waits for it no longer than the flusher's
// timeout.
func TestServerStandsStill(t *testing.T) {
	s := natsproc.Start(t)
	a, states := openStates(t, s.URL(), natstransport.ConnectOptions(
		nats.PingInterval(100*time.Millisecond), nats.FlusherTimeout(300*time.Millisecond)))
	server := wantState(t, states, true).Server
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, 1<<18)
	var err error
	for err == nil { // until the socket's buffers are full
		err = a.Send(0, transport.Peer{Address: nodeA}, 0, payload)
	}
	if !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("error %v, want disconnected", err)
	}
	wantState(t, states, false)
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if got := wantState(t, states, true).Server; got != server {
		t.Errorf("server %q, want the same instance %q", got, server)
	}
}

// TestOtherServer: of several configured servers, the link connects to a running one.
func TestOtherServer(t *testing.T) {
	one, two := natsproc.Start(t), natsproc.Start(t)
	a, states := openStates(t, one.URL()+","+two.URL(), natstransport.ConnectOptions(nats.DontRandomize()))
	first := wantState(t, states, true).Server
	if err := one.Kill(); err != nil {
		t.Fatal(err)
	}
	wantState(t, states, false)
	if second := wantState(t, states, true).Server; second == first {
		t.Errorf("server %q after it was killed", second)
	}
	if err := two.Kill(); err != nil {
		t.Fatal(err)
	}
	wantState(t, states, false)
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	if third := wantState(t, states, true).Server; third == first {
		t.Errorf("server identity %q is that of a killed process", third)
	}
	if err := a.Send(0, transport.Peer{Address: nodeA}, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, 0, transport.Direct, "x")
}

// A link that knows one server of a cluster learns the other servers from it.
func TestDiscoveredServer(t *testing.T) {
	one := startClustered(t, nil, "one")
	two := startClustered(t, one, "two")
	a, states := openStates(t, one.ClientURL())
	first := wantState(t, states, true).Server
	// Frames to a node behind another server of the cluster.
	b := openLink(t, two.ClientURL(), transport.Address{Name: "b", Incarnation: 1})
	to := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}
	for {
		if err := a.Send(0, to, 1, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := a.Flush(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if _, ok := a.TryReceive(0); !ok { // otherwise the servers have not exchanged subscriptions yet
			break
		}
	}
	wantMessage(t, b, 0, transport.Direct, "x")
	one.Shutdown()
	wantState(t, states, false)
	if second := wantState(t, states, true).Server; second == first || second != two.ID() {
		t.Errorf("server %q, want the other one, %q", second, two.ID())
	}
}

// TestMove: a link goes to each other server in turn, and to one again after that.
func TestMove(t *testing.T) {
	one := startClustered(t, nil, "one")
	startClustered(t, one, "two")
	startClustered(t, one, "three")
	states := make(chan transport.State, 100)
	o := optionsOf(nodeA)
	o.OnState = func(ch transport.Channel, s transport.State) {
		if ch == transport.Control {
			states <- s
		}
	}
	a := openWith(t, one.ClientURL(), o, natstransport.ConnectOptions(nats.DontRandomize()))
	at := []transport.State{wantState(t, states, true)}
	for range 6 {
		a.(transport.Mover).Move()
		wantState(t, states, false)
		next := wantState(t, states, true)
		if last := at[len(at)-1]; next.Server == last.Server || next.Name == last.Name {
			t.Errorf("moved from %+v to %+v", last, next)
		}
		at = append(at, next)
	}
	names := []string{at[0].Name, at[1].Name, at[2].Name}
	slices.Sort(names)
	if want := []string{"one", "three", "two"}; !slices.Equal(names, want) {
		t.Errorf("first at %v, want %v", names, want)
	}
	if err := a.Broadcast([]byte("x")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, transport.Control, transport.Broadcast, "x")
}

func startClustered(t *testing.T, peer *server.Server, name string) *server.Server {
	t.Helper()
	o := &server.Options{
		ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT},
	}
	if peer != nil {
		o.Routes = server.RoutesFromStr("nats://" + peer.ClusterAddr().String())
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("server not ready")
	}
	poll := time.NewTicker(5 * time.Millisecond) // the server has no event for it
	defer poll.Stop()
	for end := time.Now().Add(patience); peer != nil && s.NumRoutes() == 0; <-poll.C {
		if time.Now().After(end) {
			t.Fatal("servers do not find each other")
		}
	}
	return s
}

// If its credentials are refused after a break, a link keeps trying to reconnect.
func TestRefusedAtReconnect(t *testing.T) {
	s := startEmbedded(t, embedded.Options{})
	a, states := openStates(t, s.ClientURL())
	wantState(t, states, true)
	p := port(t, s)
	s.Shutdown()
	wantState(t, states, false)
	refused := make(chan struct{}, 100)
	strict, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: p, NoSigs: true, NoLog: true,
		CustomClientAuthentication: refuseAll{refused},
	})
	if err != nil {
		t.Fatal(err)
	}
	strict.Start()
	for range 20 { // lanes and control, several attempts each
		select {
		case <-refused:
		case <-time.After(patience):
			t.Fatal("the link gave up")
		}
	}
	strict.Shutdown()
	strict.WaitForShutdown()
	startEmbedded(t, embedded.Options{Port: p})
	wantState(t, states, true)
	if err := a.Send(0, transport.Peer{Address: nodeA}, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, 0, transport.Direct, "x")
}

type refuseAll struct{ refused chan<- struct{} }

func (r refuseAll) Check(server.ClientAuthentication) bool {
	select {
	case r.refused <- struct{}{}:
	default:
	}
	return false
}
