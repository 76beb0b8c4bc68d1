package memory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/conformance"
	"github.com/shardgen/shardgen/store/memory"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Subject{
		Bubble: synctest.Test,
		Open: func(*testing.T) conformance.Harness {
			server := memory.New()
			return conformance.Harness{
				Client: func(*testing.T) conformance.Client { return server.Client() },
				TTL:    time.Second,
				Wait:   time.Sleep,
				Stream: func(*testing.T) conformance.Stream {
					server.SetStream(time.Minute, "mails.>")
					return conformance.Stream{
						Subject: "mails.won", Window: time.Minute,
						Data: func(_ *testing.T, subject string) []string { return data(server.Published(subject)) },
						Subscribe: func(_ *testing.T, subject string) func() (string, bool) {
							return func() (string, bool) { return data(server.Sent(subject))[0], true }
						},
					}
				},
				Held: func(*testing.T) (conformance.Client, func(), func()) {
					c := server.Client()
					late := func(memory.Op) memory.Fault { return memory.Fault{Loss: memory.LoseTouch, Late: time.Hour} }
					return c, func() { c.Fault(late) }, func() { c.Fault(nil); server.Deliver() }
				},
				Stale: func(*testing.T) (conformance.Client, func(), func()) {
					c := server.Client()
					c.Fault(func(memory.Op) memory.Fault { return memory.Fault{Follower: true} })
					return c, func() { server.Lag(memory.MaxUnsynced) }, func() { server.Lag(0) }
				},
				Restart: func(*testing.T) { server.Stop(); server.Start(0) },
			}
		},
	})
}

func data(all []memory.Published) (texts []string) {
	for _, m := range all {
		texts = append(texts, string(m.Data))
	}
	return texts
}

// TestPublishedMatches checks which messages Published returns for a subject with wildcards.
func TestPublishedMatches(t *testing.T) {
	server := memory.New()
	for i, subject := range []string{"a", "a.b", "a.b.c", "b.b"} {
		if err := server.Client().Publish(t.Context(), store.Message{Subject: subject, ID: string(rune('0' + i)), Data: []byte(subject)}); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string][]string{
		">": {"a", "a.b", "a.b.c", "b.b"}, "a": {"a"}, "a.>": {"a.b", "a.b.c"}, "a.*": {"a.b"}, "*.b": {"a.b", "b.b"}, "*": {"a"}, "a.b.c.d": nil,
	} {
		if got := data(server.Published(pattern)); !slices.Equal(got, want) {
			t.Errorf("Published(%q) has %q, want %q", pattern, got, want)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name    string
		fault   memory.Fault
		want    error
		applied bool
	}{
		{"none", memory.Fault{}, nil, true},
		{"slow", memory.Fault{Delay: 400 * time.Millisecond, Answer: 400 * time.Millisecond}, nil, true},
		{"cut", memory.Fault{Loss: memory.LoseConnection}, store.ErrUnavailable, false},
		{"request lost", memory.Fault{Loss: memory.LoseRequest}, store.ErrUncertain, false},
		{"answer lost", memory.Fault{Loss: memory.LoseAnswer}, store.ErrUncertain, true},
		{"too slow there", memory.Fault{Delay: 2 * time.Second}, store.ErrUncertain, false},
		{"too slow back", memory.Fault{Answer: 2 * time.Second}, store.ErrUncertain, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memory.New()
				c, other := server.Client(), server.Client()
				c.Fault(func(memory.Op) memory.Fault { return test.fault })
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Put(ctx, "k", []byte("v"), store.None)
				if !errors.Is(err, test.want) {
					t.Errorf("put: got %v, want %v", err, test.want)
				}
				_, err = other.Get(t.Context(), "k")
				if applied := err == nil; applied != test.applied {
					t.Errorf("applied is %v (%v), want %v", applied, err, test.applied)
				}
				if test.want != nil {
					if _, err := c.Get(ctx, "k"); !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("get: got %v, want %v", err, store.ErrUnavailable)
					}
				}
				c.Fault(nil)
				if _, err := c.List(t.Context(), ""); err != nil {
					t.Errorf("without the fault: %v", err)
				}
			})
		})
	}
}

// TestCutBesideAFault: a client stays cut off when a fault ends, and has a fault when its cut ends.
func TestCutBesideAFault(t *testing.T) {
	c := memory.New().Client()
	lose := func(memory.Op) memory.Fault { return memory.Fault{Loss: memory.LoseRequest} }
	put := func() error { _, err := c.Put(t.Context(), "k", nil, store.None); return err }
	c.Fault(lose)
	c.Cut(true)
	c.Fault(nil)
	if err := put(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("cut: got %v, want %v", err, store.ErrUnavailable)
	}
	c.Fault(lose)
	c.Cut(false)
	if err := put(); !errors.Is(err, store.ErrUncertain) {
		t.Errorf("with a fault: got %v, want %v", err, store.ErrUncertain)
	}
	c.Fault(nil)
	if err := put(); err != nil {
		t.Error(err)
	}
}

func TestServerFaultMeetsAll(t *testing.T) {
	server := memory.New()
	a, b := server.Client(), server.Client()
	var met []string
	server.Fault(func(op memory.Op) memory.Fault {
		met = append(met, op.Name+" "+op.Key)
		return memory.Fault{Loss: memory.LoseConnection}
	})
	for _, c := range []*memory.Client{a, b} {
		if _, err := c.Get(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, store.ErrUnavailable)
		}
	}
	if len(met) != 2 || met[0] != "get k" {
		t.Errorf("met %q, want get k twice", met)
	}
}

// TestLeaseHasOneHolder: candidates ask at random times; holders renew, pause and lose messages.
// There are never two holders that both obey Until, and tokens only grow.
func TestLeaseHasOneHolder(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) { raceForLease(t, seed) })
	}
}

func raceForLease(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	server := memory.New()
	const candidates = 4
	var clients [candidates]*memory.Client
	var held [candidates]store.Held
	for i := range clients {
		clients[i] = server.Client()
		clients[i].Fault(func(memory.Op) memory.Fault {
			return memory.Fault{
				Delay: time.Duration(random.IntN(80)) * time.Millisecond, Answer: time.Duration(random.IntN(80)) * time.Millisecond,
				Loss: []memory.Loss{0, 0, 0, memory.LoseConnection, memory.LoseRequest, memory.LoseAnswer}[random.IntN(6)],
			}
		})
	}
	var highest uint64
	granted := 0
	for range 400 {
		i := random.IntN(candidates)
		var got store.Held
		var err error
		if held[i].Token != 0 && random.IntN(3) > 0 {
			if got, err = clients[i].Renew(t.Context(), held[i]); errors.Is(err, store.ErrLost) {
				held[i] = store.Held{}
			}
		} else {
			got, err = clients[i].Acquire(t.Context(), store.Claim{Name: "l", Holder: string(rune('a' + i)), TTL: time.Second})
		}
		if err == nil {
			held[i] = got
			granted++
			if got.Token < highest {
				t.Fatalf("seed %d: token %d after %d", seed, got.Token, highest)
			}
			highest = got.Token
		}
		for j := range held {
			if j != i && err == nil && time.Now().Before(held[j].Until) {
				t.Fatalf("seed %d: %c has the lease, and %c may still use it for %v", seed, 'a'+i, 'a'+j, time.Until(held[j].Until))
			}
		}
		time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond)
	}
	if highest < 10 || granted < int(highest) {
		t.Fatalf("seed %d: %d grants, highest token %d: the test tested nothing", seed, granted, highest)
	}
}
