// Package bounded limits the length of untrusted bytes in log lines and errors, and releases the
// memory of maps that grew because of untrusted peers.
package bounded

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"
)

// Most is how many bytes of a text [Text] keeps.
const Most = 200

// Text is TextUpTo with [Most].
func Text(s string) string { return TextUpTo(Most, s) }

// TextUpTo returns s or, if s is longer than most bytes, its first most bytes and its length. It does
// not cut a rune of valid UTF-8. most is at least 4.
func TextUpTo(most int, s string) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:end], len(s))
}

// Error returns err with its text bounded by [Text], or nil if err is nil. errors.Is and errors.As
// still find what err wraps.
func Error(err error) error {
	if err == nil || len(err.Error()) <= Most {
		return err
	}
	return &clipped{Text(err.Error()), err}
}

type clipped struct {
	text string
	err  error
}

func (c *clipped) Error() string { return c.text }
func (c *clipped) Unwrap() error { return c.err }

// ID returns an entity's id for errors and logs: quoted if it holds control characters, and quoted
// and cut to 40 characters if it exceeds 64 bytes.
func ID(s string) string {
	const most = 64
	if len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		return s
	}
	if len(s) > most {
		return fmt.Sprintf("%.40q… (%d bytes)", s, len(s))
	}
	return fmt.Sprintf("%q", s)
}

// refitFrom is how many entries a map must have had before Refit copies it.
const refitFrom = 64

// Refit returns m, or a copy of m if m once had at least 64 entries and at least four times as many
// as now. The copy frees memory, because a map keeps the memory of its largest size. most points to
// the largest size since the last copy; the caller keeps this number with the map, and Refit
// updates it.
func Refit[K comparable, V any](m map[K]V, most *int) map[K]V {
	*most = max(*most, len(m))
	if *most < refitFrom || len(m) > *most/4 {
		return m
	}
	*most = len(m)
	fitting := make(map[K]V, len(m))
	maps.Copy(fitting, m)
	return fitting
}
