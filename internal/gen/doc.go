// Package gen is the generator's pipeline: load packages into a model, print the
// model through the templates, and bring the files on disk up to date. Either all
// files are written or, when anything is wrong, none.
package gen
