package transport

import (
	"cmp"
	"fmt"
	"strings"
)

// MaxNameBytes is the longest name of a cluster or node, in bytes.
const MaxNameBytes = 64

// An Address identifies one start of a node. Its name is chosen by people and stays the same over
// restarts; its incarnation is random and new at each start (in the Akka Cluster specification:
// hostname:port:uid).
type Address struct {
	Name        string
	Incarnation uint64
}

// IsZero reports whether the address is unset.
func (a Address) IsZero() bool { return a == Address{} }

// Compare orders addresses by name, then incarnation. So all nodes sort addresses in the same
// order.
func (a Address) Compare(b Address) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return cmp.Compare(a.Incarnation, b.Incarnation)
}

// String returns the name and the incarnation in hexadecimal: "web-1#00c0ffee00c0ffee".
func (a Address) String() string {
	if a.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s#%016x", a.Name, a.Incarnation)
}

// CheckName returns an error unless name is 1 to 64 of [A-Za-z0-9_-], the characters allowed in
// subjects and permissions. The error's text begins with "<what> name".
func CheckName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s name is empty: want 1 to %d of A-Z a-z 0-9 _ -", what, MaxNameBytes)
	}
	if len(name) > MaxNameBytes {
		return fmt.Errorf("%s name %.20q… has %d bytes: want at most %d", what, name, len(name), MaxNameBytes)
	}
	for _, r := range name {
		if !plain(r) {
			return fmt.Errorf("%s name %.40q holds %q: want only A-Z a-z 0-9 _ -", what, name, r)
		}
	}
	return nil
}

func plain(r rune) bool {
	return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}
