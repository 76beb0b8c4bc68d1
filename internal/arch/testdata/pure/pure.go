// Package pure does what a pure core may.
package pure

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

type counts map[string]int

func pure(c counts, now time.Time, seed uint64) (names []string, n int) {
	r := rand.New(rand.NewPCG(seed, seed))
	names = slices.Sorted(maps.Keys(c))
	for range c {
		n++
	}
	//arch:order-free a sum
	for _, each := range c {
		n += each
	}
	for k, each := range c { //arch:order-free another map
		c[k] = each + 1
	}
	for _, name := range names {
		n += len(name)
	}
	if now.Add(time.Second).After(now) {
		n += r.IntN(3)
	}
	return names, n
}

var _ = pure
