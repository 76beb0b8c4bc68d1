package shardtest

import (
	"bytes"
	"regexp"
	"runtime"
	"strings"
	"testing/synctest"
	"time"
)

// leakPatience bounds the wait for goroutines to end, in virtual time.
const leakPatience = 30 * time.Second

// bubbleOf matches the bubble's name in a goroutine's stack.
var bubbleOf = regexp.MustCompile(`^goroutine \d+ \[.*(synctest bubble \d+)`)

// leaked waits, at most leakPatience, until the bubble of package synctest has no goroutines
// besides this one and the bubble's own. It returns the stacks of the goroutines that are left.
func leaked() (left []string) {
	for end := time.Now().Add(leakPatience); ; time.Sleep(time.Second) {
		synctest.Wait()
		if left = others(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

func others() (stacks []string) {
	all := make([]byte, 1<<20)
	for {
		if n := runtime.Stack(all, true); n < len(all) {
			all = all[:n]
			break
		}
		all = make([]byte, 2*len(all))
	}
	first, rest, _ := bytes.Cut(all, []byte("\n\n")) // this goroutine comes first
	m := bubbleOf.FindSubmatch(first)
	if m == nil {
		return nil
	}
	for stack := range strings.SplitSeq(string(rest), "\n\n") {
		line, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(line, string(m[1])+"]") && !strings.Contains(line, "[synctest.Run") && !strings.Contains(stack, "synctest.testingSynctestTest(") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

func joinStacks(stacks []string) string { return strings.Join(stacks, "\n\n") }

func inBubble() (in bool) {
	defer func() { in = recover() == nil }()
	synctest.Wait() // panics outside a bubble
	return true
}
