// Package bounded limits the length of untrusted bytes in log lines and errors, and gives back the memory of maps
// that strangers had grow.
package bounded

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"
)

// Most is how many bytes of a text are kept.
const Most = 200

// Text is s, or its first [Most] bytes and how many there are. It cuts no rune of valid
// UTF-8.
func Text(s string) string {
	if len(s) <= Most {
		return s
	}
	end := Most
	for end > Most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:end], len(s))
}

// Error is err with its text bounded by [Text]; nil is nil. errors.Is and errors.As find
// what err holds.
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

// ID is an entity's id as errors and logs show it: at most 64 bytes, and quoted where it
// is longer or holds control characters.
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

// refitFrom is how many entries a map must have had before it is worth a copy.
const refitFrom = 64

// Refit returns m, or a copy if m has had at least 64 entries and at least four times as many as it has now, because a
// map keeps the memory of its largest size. most is the largest size that Refit has seen since the last copy. The caller
// keeps it with the map.
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
