package durablehost

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport"
)

func TestTypeCannotChange(t *testing.T) {
	s, ctx := memory.New().Client(), context.Background()
	first := Type{Cluster: "bank", Shards: 64, Hash: "xxh64"}
	for range 2 {
		if err := CheckType(ctx, s, "Account", first); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []Type{
		{Cluster: "shop", Shards: 64, Hash: "xxh64"}, {Cluster: "bank", Shards: 128, Hash: "xxh64"}, {Cluster: "bank", Shards: 64, Hash: "mine"},
	} {
		err := CheckType(ctx, s, "Account", other)
		if !errors.Is(err, ErrType) || !strings.Contains(err.Error(), "Account") {
			t.Errorf("%+v: %v", other, err)
		}
	}
}

// TestDamagedTerm: NextTerm returns an error if the record of the terms is not a number, and does
// not overwrite it.
func TestDamagedTerm(t *testing.T) {
	s, ctx := memory.New().Client(), context.Background()
	if _, err := s.Put(ctx, "terms/bank", []byte("seven"), store.None); err != nil {
		t.Fatal(err)
	}
	if term, _, err := NextTerm(ctx, s, "bank", 3); err == nil || !strings.Contains(err.Error(), "terms/bank") {
		t.Errorf("term %d, %v, want an error that names the record", term, err)
	}
	if r, err := s.Get(ctx, "terms/bank"); err != nil || string(r.Value) != "seven" {
		t.Errorf("the record is %q, %v", r.Value, err)
	}
}

// TestTermsGrow: terms grow from one coordinator to the next, even over full restarts and after the
// record was lost.
func TestTermsGrow(t *testing.T) {
	s, ctx := memory.New().Client(), context.Background()
	last := uint32(0)
	next := func(atLeast, want uint32) {
		t.Helper()
		got, before, err := NextTerm(ctx, s, "bank", atLeast)
		if err != nil || got != want || before != last {
			t.Errorf("term %d after %d, %v, want %d after %d", got, before, err, want, last)
		}
		last = got
	}
	next(1, 1)
	next(1, 2)
	next(7, 7)
	next(1, 8)
	for _, met := range []uint32{20, 3} {
		if last, err := RaiseTerm(ctx, s, "bank", met); err != nil || last != 20 {
			t.Fatalf("raised above %d: term %d, %v, want 20", met, last, err)
		}
	}
	last = 20
	next(1, 21)
}

// TestFoundingIsCompareAndSet: of two writes that replace the same revision, the second conflicts.
// If the store does not answer, the outcome is unknown.
func TestFoundingIsCompareAndSet(t *testing.T) {
	s, ctx := memory.New().Client(), context.Background()
	founding := func(name string) membership.Founding {
		a := transport.Address{Name: name, Incarnation: 1 << 60}
		return membership.Founding{Founder: a, Node: a, Server: "s1"}
	}
	none := Founding(ctx, s, "bank", membership.FoundingRequest{Number: 1})
	first := Founding(ctx, s, "bank", membership.FoundingRequest{Number: 2, Write: true, Founding: founding("a")})
	second := Founding(ctx, s, "bank", membership.FoundingRequest{Number: 3, Write: true, Founding: founding("b")})
	read := Founding(ctx, s, "bank", membership.FoundingRequest{Number: 4})
	if none != (membership.FoundingAnswer{Number: 1}) || first.Revision == 0 || first.Reason != "" || first.Conflict ||
		second != (membership.FoundingAnswer{Number: 3, Conflict: true}) ||
		read != (membership.FoundingAnswer{Number: 4, Founding: founding("a"), Revision: first.Revision}) {
		t.Errorf("read %+v, wrote %+v, then %+v, read %+v", none, first, second, read)
	}
	s.Cut(true)
	cut, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if a := Founding(cut, s, "bank", membership.FoundingRequest{Number: 5}); a.Reason == "" || a.Conflict {
		t.Errorf("a store that is cut off answers %+v", a)
	}
}
