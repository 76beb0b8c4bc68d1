package main

import (
	"fmt"
	"slices"
)

// check compares answers, in the order of each caller, with the final totals. It returns a line for
// each wrong counter. A total below zero is unknown and not checked.
//
// Each call added 1. So the answers of a counter with n calls must be 1 to n: a gap is a lost call,
// and a repetition is a lost state. Each caller's answers must rise, and the total must be n.
func check(answers [][]answer, totals []int64) (wrong []string) {
	all := make([][]int64, len(totals))
	why := make(map[int]string)
	for _, caller := range answers {
		last := make(map[int]int64)
		for _, a := range caller {
			if a.total <= last[a.counter] {
				why[a.counter] = fmt.Sprintf("one caller got %d after %d", a.total, last[a.counter])
			}
			last[a.counter] = a.total
			all[a.counter] = append(all[a.counter], a.total)
		}
	}
	for i, got := range all {
		slices.Sort(got)
		for j, total := range got {
			if want := int64(j) + 1; total != want && why[i] == "" {
				why[i] = fmt.Sprintf("its sorted answers have %d where %d belongs", total, want)
			}
		}
		if n := int64(len(got)); totals[i] >= 0 && totals[i] != n && why[i] == "" {
			why[i] = fmt.Sprintf("its total is %d after %d answers", totals[i], n)
		}
		if why[i] != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s", counterName(i), why[i]))
		}
	}
	return wrong
}
