package bounded

import (
	"fmt"
	"strings"
)

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
