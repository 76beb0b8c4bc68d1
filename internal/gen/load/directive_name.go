package load

import (
	"slices"
	"strings"
)

// The directives that exist.
var (
	entityDirectives = []string{"entity", "singleton"}
	methodDirectives = []string{"ignore", "read", "tell"}
	allDirectives    = slices.Concat(entityDirectives, methodDirectives, []string{"error", oneofDirective})
)

func suggestion(name string) string {
	if meant := nearest(strings.ToLower(name), allDirectives); meant != "" {
		return "write //shard:" + meant
	}
	return "there are //shard:" + strings.Join(allDirectives, ", //shard:")
}
