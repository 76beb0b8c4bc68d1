// Package arch has the rules of this repository as tests: allowed imports between folders
// (floors_test.go), pure cores (pure_test.go), the form of files (files_test.go), a fuzzer for each
// decoder (fuzz_test.go), links and snippets in pages (docs_test.go, snippets_test.go), and words
// to avoid (words_test.go).
//
// A pure core may range over a map only if the order has no visible effect. The line before must
// say why:
//
//	//arch:order-free the sum is the same in any order
//	for _, n := range counts {
package arch
