// Package templates prints generated code: it has one emitter for each part of a generated
// file, with a golden file beside it that shows the part alone. Emitters print a
// model.Package and decide nothing about it.
package templates
