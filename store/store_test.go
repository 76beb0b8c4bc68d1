package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

func TestCheckKey(t *testing.T) {
	for _, test := range []struct {
		key string
		ok  bool
	}{
		{"a", true},
		{"terms/coordinator", true},
		{"remembered/Counter/=41-b_c", true},
		{strings.Repeat("k", store.MaxKey), true},
		{strings.Repeat("k", store.MaxKey+1), false},
		{"", false},
		{"/a", false},
		{"a/", false},
		{"a//b", false},
		{"a.b", false},
		{"a b", false},
		{"a*", false},
		{"é", false},
		{"a\x00", false},
	} {
		err := store.CheckKey(test.key)
		if (err == nil) != test.ok || err != nil && !errors.Is(err, store.ErrBadKey) {
			t.Errorf("CheckKey(%q) = %v, want ok %v", test.key, err, test.ok)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	for prefix, ok := range map[string]bool{"": true, "a/": true, "a/b/": true, "a": false, "/": false, "a//": false, "a b/": false} {
		if err := store.CheckPrefix(prefix); (err == nil) != ok {
			t.Errorf("CheckPrefix(%q) = %v, want ok %v", prefix, err, ok)
		}
	}
}

func TestClaimCheck(t *testing.T) {
	good := store.Claim{Name: "leader", Holder: "a.1", TTL: time.Second}
	for _, test := range []struct {
		name   string
		change func(*store.Claim)
		ok     bool
	}{
		{"good", func(*store.Claim) {}, true},
		{"lowest TTL", func(c *store.Claim) { c.TTL = store.MinTTL }, true},
		{"no name", func(c *store.Claim) { c.Name = "" }, false},
		{"no holder", func(c *store.Claim) { c.Holder = "" }, false},
		{"long holder", func(c *store.Claim) { c.Holder = strings.Repeat("h", store.MaxKey+1) }, false},
		{"no TTL", func(c *store.Claim) { c.TTL = 0 }, false},
		{"short TTL", func(c *store.Claim) { c.TTL = store.MinTTL - 1 }, false},
	} {
		c := good
		test.change(&c)
		err := c.Check()
		if (err == nil) != test.ok || err != nil && !errors.Is(err, store.ErrBadClaim) {
			t.Errorf("%s: Check() = %v, want ok %v", test.name, err, test.ok)
		}
	}
}

func TestErrors(t *testing.T) {
	err := error(&store.Error{Op: "acquire", Key: "leader", Err: &store.HeldError{Holder: "a.1", Token: 3, RetryAfter: time.Second}})
	var held *store.HeldError
	if !errors.Is(err, store.ErrHeld) || !errors.As(err, &held) || held.Token != 3 {
		t.Errorf("%v does not match ErrHeld", err)
	}
	want := `store: acquire "leader": lease is held by a.1 for up to 1s`
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestCheckSubject(t *testing.T) {
	for subject, ok := range map[string]bool{
		"a": true, "mails.won": true, "a.b-c_d.E=": true, "a*.b": true, "x$.y": true,
		"": false, ".a": false, "a.": false, "a..b": false, "a.*": false, "a.>": false, ">": false, "a b": false, "a\tb": false, "ä": false,
		"$JS.API": false, "$SYS": false, "_INBOX.x": false,
	} {
		if err := store.CheckSubject(subject); (err == nil) != ok || err != nil && !errors.Is(err, store.ErrBadKey) {
			t.Errorf("CheckSubject(%q) = %v, want ok %v", subject, err, ok)
		}
	}
}
