package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
)

// besieged is a cluster of two members, a client called web, and an attacker with the rights of
// another client.
type besieged struct {
	members  []*shard.Node
	conn     *shard.Conn
	attacker *hostile.Attacker
	homes    []transport.Address
	probe    *fixture.Probe // of all accounts
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	url := leastPrivilege(t, map[string]rights.Rights{
		"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web"), "evil": rights.Client("e2e", "evil"),
	})
	workers := newCluster(t, url("worker"))
	b := &besieged{probe: &fixture.Probe{Entered: make(chan string, 1), Release: make(chan struct{})}}
	for _, name := range []string{"a", "b"} {
		n := shard.New(workers.config(name))
		t.Cleanup(func() { _ = n.Close() })
		if err := fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: b.probe} }); err != nil {
			t.Fatal(err)
		}
		workers.run(n)
		b.members = append(b.members, n)
	}
	b.conn = newCluster(t, url("web")).dial("web")
	await(t.Context(), t, "both are members", func() bool {
		b.homes = nil
		for _, m := range b.members[0].Cluster().Members {
			b.homes = append(b.homes, m.Address)
		}
		return len(b.homes) == 2
	})
	a, err := hostile.NewAttacker(url("evil"), "e2e", "evil", b.homes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	b.attacker = a
	return b
}

// unhurt fails the test if a member has ended, or was removed.
func (b *besieged) unhurt(t *testing.T) {
	t.Helper()
	for _, n := range b.members {
		if err := n.Err(); err != nil {
			t.Errorf("a member has ended: %v", err)
		}
		if got := n.Cluster().Members; len(got) != 2 {
			t.Errorf("members %v, want two", got)
		}
	}
}

// count returns the sum of a counter of both members.
func (b *besieged) count(name string) (n uint64) {
	for _, m := range b.members {
		n += m.Counters()[name]
	}
	return n
}

// TestHostileFlood sends messages of all kinds that a client can send, while another client calls.
// All answers to the other client are right, and no member ends.
func TestHostileFlood(t *testing.T) {
	b := besiege(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := b.attacker.OpenSessions(ctx); err != nil {
		t.Fatal(err)
	}
	accounts := fixture.NewAccountClient(b.conn)
	over := make(chan struct{})
	var calls atomic.Int64
	wrong := make(chan error, 8)
	for i := range 8 {
		go func() {
			account, want := accounts.Ref(fmt.Sprint("web-", i)), int64(0)
			for {
				select {
				case <-over:
					wrong <- nil
					return
				default:
				}
				want++
				got, err := account.Add(ctx, 1)
				if err != nil || got != want {
					wrong <- fmt.Errorf("web-%d: %d, %w, want %d", i, got, err, want)
					return
				}
				calls.Add(1)
			}
		}()
	}
	if err := b.attacker.Flood(ctx, 10_000, 0); err != nil {
		t.Error(err)
	}
	before := calls.Load()
	await(ctx, t, "calls go on", func() bool { return calls.Load() > before+100 || len(wrong) > 0 })
	close(over)
	for range 8 {
		if err := <-wrong; err != nil {
			t.Error(err)
		}
	}
	b.unhurt(t)
	for _, name := range []string{"forbidden message", "foreign frame", "client over quota"} {
		if b.count(name) == 0 {
			t.Errorf("no %s was counted, so the flood did not do what it is for: %v", name, b.members[0].Counters())
		}
	}
	if sent, denied := b.attacker.Sent(); denied == 0 {
		t.Errorf("of %d messages the server denied none", sent)
	}
}

// TestHostileCancel: a client in a session of its own cannot cancel, answer or read another client's
// call.
func TestHostileCancel(t *testing.T) {
	b := besiege(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.attacker.OpenSessions(ctx); err != nil {
		t.Fatal(err)
	}
	accounts := fixture.NewAccountClient(b.conn)
	if _, err := accounts.Ref("held").Add(ctx, 1); err != nil {
		t.Fatal(err)
	}
	held, giveUp := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- accounts.Ref("held").Hold(held) }()
	select {
	case <-b.probe.Entered:
	case <-ctx.Done():
		t.Fatal("the call to hold has not begun")
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := accounts.Ref("held").Add(ctx, 1)
		waiting <- err
	}()
	sent := uint64(0)
	for id := range uint64(2000) {
		for i, m := range b.homes {
			for _, e := range []*wire.Envelope{
				{Type: wire.TypeCancel, ID: id, Kind: []byte("Account"), Shard: 64 + uint32(id%64), Entity: []byte("held")},
				{Type: wire.TypeAnswer, ID: id, Payload: []byte{8, 99}},
			} {
				if err := b.attacker.SendFrame(uint64(i), m, e); err != nil {
					t.Fatal(err)
				}
				sent++
			}
		}
		if id%100 == 0 {
			if err := b.attacker.Settle(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Each forged answer is counted as forbidden, so all cancellations have been read then.
	await(ctx, t, "all was read", func() bool { return b.count("forbidden message") == sent/2 })
	select {
	case err := <-done:
		t.Fatalf("the held call has ended: %v", err)
	case err := <-waiting:
		t.Fatalf("the waiting call has ended: %v", err)
	default:
	}
	giveUp()
	<-done
	if err := <-waiting; err != nil {
		t.Errorf("the waiting call: %v", err)
	}
	b.unhurt(t)
}
