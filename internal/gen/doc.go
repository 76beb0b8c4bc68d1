// Package gen is the generator's pipeline: load packages into a model, print the model
// through the templates, and bring the files on disk up to date. If there is any
// diagnostic, no file is written.
package gen
