package store_test

import (
	"errors"
	"testing"

	"github.com/shardgen/shardgen/store"
)

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
