// Package bounded limits the length of untrusted bytes in log lines and errors, and gives back the memory of maps
// that strangers had grow.
package bounded

import (
	"fmt"
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
