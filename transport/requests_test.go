package transport

import "testing"

// FuzzUnescapeID checks that each word has at most one id, and each id one word.
func FuzzUnescapeID(f *testing.F) {
	for _, word := range []string{"", "alice", "a=2Eb", "=61dmin", "=C3=A4", "a.b", "=", "=4", "=GG", "=00=FF"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := UnescapeID(s); err == nil && EscapeID(id) != s {
			t.Fatalf("%q is accepted for %q, which is written %q", s, id, EscapeID(id))
		}
		if id, err := UnescapeID(EscapeID(s)); err != nil || id != s {
			t.Fatalf("%q is written %q, which is read as %q, %v", s, EscapeID(s), id, err)
		}
	})
}
