package main

import (
	"fmt"
	"slices"
)

// check compares the callers' answers with the final totals. answers has each caller's answers in
// order. It returns one line for each wrong counter. A total below zero means that the total is
// unknown; such a counter is not checked.
//
// Each call added one to a counter. So all callers' answers of the counter must be 1 to n without a
// gap (a lost call) and without a repetition (a lost state). The answers of one caller must rise,
// and the total must be n.
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
