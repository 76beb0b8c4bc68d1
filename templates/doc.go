// Package templates prints generated code: it has one emitter for each part of a generated file.
// Most parts have a golden file here that shows only that part. Emitters print a model.Package; all
// decisions are already in the model.
package templates
