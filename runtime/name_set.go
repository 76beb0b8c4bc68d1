package shard

import (
	"slices"
	"unsafe"
)

// maxScanned is the largest number of names that are compared one by one.
const maxScanned = 8

// A nameSet is a set of names that never changes. Few names are compared one by one, which is faster
// than a map: without it a local call of a method marked //shard:read takes 1.1 times as long (What each trick
// buys in bench/README.md).
type nameSet struct {
	few []string        // all names, if they are few
	all map[string]bool // else nil
}

func newNameSet(names map[string]bool) nameSet {
	if len(names) > maxScanned {
		return nameSet{all: names}
	}
	var few []string
	for name, in := range names { //arch:order-free sorted below
		if in {
			few = append(few, name)
		}
	}
	slices.Sort(few)
	return nameSet{few: few}
}

// has reports whether name is in the set. The names of generated code are the same constants at callers
// and hosts, so most names that are in it are found without a look at their bytes.
func (s *nameSet) has(name string) bool {
	for i := range s.few {
		if n := s.few[i]; len(n) == len(name) && unsafe.StringData(n) == unsafe.StringData(name) {
			return true
		}
	}
	if s.all != nil {
		return s.all[name]
	}
	for _, n := range s.few {
		if n == name {
			return true
		}
	}
	return false
}
