package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/store"
)

func TestShardCheck(t *testing.T) {
	for _, test := range []struct {
		shard store.Shard
		ok    bool
	}{
		{store.Shard{Type: "T"}, true},
		{store.Shard{Type: "\x00 .*>", Number: store.MaxShards - 1}, true},
		{store.Shard{Type: strings.Repeat("t", store.MaxType)}, true},
		{store.Shard{Type: strings.Repeat("t", store.MaxType+1)}, false},
		{store.Shard{Number: 1}, false},
		{store.Shard{Type: "T", Number: -1}, false},
		{store.Shard{Type: "T", Number: store.MaxShards}, false},
	} {
		if err := test.shard.Check(); (err == nil) != test.ok || err != nil && !errors.Is(err, store.ErrBadKey) {
			t.Errorf("%v: Check() = %v, want ok %v", test.shard, err, test.ok)
		}
	}
}

func TestCheckIDsAndChanges(t *testing.T) {
	for _, test := range []struct {
		ids []string
		ok  bool
	}{
		{nil, true},
		{[]string{"a", "b", "\x00"}, true},
		{[]string{strings.Repeat("i", store.MaxID)}, true},
		{[]string{strings.Repeat("i", store.MaxID+1)}, false},
		{[]string{""}, false},
		{[]string{"a", "b", "a"}, false},
	} {
		if err := store.CheckIDs(test.ids); (err == nil) != test.ok || err != nil && !errors.Is(err, store.ErrBadKey) {
			t.Errorf("CheckIDs(%q) = %v, want ok %v", test.ids, err, test.ok)
		}
		var changes []store.Change
		for _, id := range test.ids {
			changes = append(changes, store.Change{ID: id, Value: []byte("v")})
		}
		if err := store.CheckChanges(1, changes, 1); (err == nil) != test.ok || err != nil && !errors.Is(err, store.ErrBadKey) {
			t.Errorf("CheckChanges(%q) = %v, want ok %v", test.ids, err, test.ok)
		}
		if err := store.CheckChanges(store.None, changes, 1); !errors.Is(err, store.ErrBadKey) {
			t.Errorf("CheckChanges under None = %v", err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	err := store.CheckChanges(1, []store.Change{{ID: "a"}, {ID: "b", Value: make([]byte, 11)}}, 10)
	var large *store.TooLargeError
	if !errors.Is(err, store.ErrTooLarge) || !errors.As(err, &large) || large.Size != 11 || large.Limit != 10 {
		t.Errorf("got %v", err)
	}
	large.Hint = "raise it"
	if got, want := large.Error(), "value too large: 11 bytes: want at most 10 (raise it)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
