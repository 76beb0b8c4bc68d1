// Package arch holds the rules of this repository that a compiler does not
// know, as tests: which folder may import which (floors_test.go), what the pure
// cores must do without (pure_test.go), how files look (files_test.go), how far
// the files of a package may depend on each other (structure_test.go), and which
// words comments and pages avoid (words_test.go, prose_test.go).
//
// A pure core may range over a map where nobody can see the order. The line
// before says why:
//
//	//arch:order-free the sum is the same in any order
//	for _, n := range counts {
package arch
