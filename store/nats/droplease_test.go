package natsstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestDropLeases: leases below a prefix are dropped. Their holders have lost them, and their tokens
// begin with 1 again. Other leases stay.
func TestDropLeases(t *testing.T) {
	s := open(t, natsproc.Start(t, "-js", "-sd", t.TempDir()).URL(), natsstore.Config{})
	acquire := func(name, holder string, over uint64) store.Held {
		t.Helper()
		h, err := s.Acquire(t.Context(), store.Claim{Name: name, Holder: holder, TTL: time.Minute, Over: over})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	gone := acquire("singleton/bank/Chief", "b#2", acquire("singleton/bank/Chief", "a#1", 0).Token)
	stays := acquire("singleton/bank2/Chief", "a#1", 0)
	if gone.Token != 2 {
		t.Fatalf("token %d, want 2", gone.Token)
	}
	if n, err := s.DropLeases(t.Context(), "singleton/bank/"); err != nil || n != 1 {
		t.Fatalf("%d leases, %v, want 1", n, err)
	}
	if _, err := s.Renew(t.Context(), gone); !errors.Is(err, store.ErrLost) {
		t.Errorf("a lease that was dropped is renewed: %v, want ErrLost", err)
	}
	if _, err := s.Renew(t.Context(), stays); err != nil {
		t.Errorf("a lease of another cluster: %v", err)
	}
	if h := acquire("singleton/bank/Chief", "c#3", 0); h.Token != 1 {
		t.Errorf("token %d, want 1", h.Token)
	}
	if _, err := s.DropLeases(t.Context(), "singleton/bank"); !errors.Is(err, store.ErrBadKey) {
		t.Errorf("a prefix without a slash: %v, want ErrBadKey", err)
	}
}
