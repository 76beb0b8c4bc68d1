package coordinator

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/runtime/placement"
)

// Strategies finds a strategy by its name: the user's own, then those of package
// placement.
type Strategies map[string]placement.Strategy

// find returns fallback with ok false when nobody knows the name.
func (s Strategies) find(name string, fallback placement.Strategy) (_ placement.Strategy, ok bool) {
	if name == "" {
		return fallback, true
	}
	if own := s[name]; own != nil {
		return own, true
	}
	if known, ok := placement.ParseStrategy(name); ok {
		return known, true
	}
	return fallback, false
}

// CheckStrategyName returns an error for a name that cannot be told to others.
func CheckStrategyName(name string) error {
	if name == "" || len(name) > maxKindBytes || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("check strategy name %.40q: want 1 to %d bytes of text", name, maxKindBytes)
	}
	return nil
}
