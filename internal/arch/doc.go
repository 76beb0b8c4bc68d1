// Package arch holds the rules of this repository as tests: the order of imports between folders
// (floors_test.go), the purity of the cores (pure_test.go), the form of files (files_test.go), a
// fuzzer for each decoder (fuzz_test.go), links and snippets of pages (docs_test.go,
// snippets_test.go), and words to avoid (words_test.go).
//
// A pure core may range over a map where nobody can see the order. The line
// before says why:
//
//	//arch:order-free the sum is the same in any order
//	for _, n := range counts {
package arch
