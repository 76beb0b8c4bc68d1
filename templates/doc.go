// Package templates prints generated code: it has one emitter for each part of a generated
// file. Most have a golden file beside them that shows the part alone. Emitters print a
// model.Package and decide nothing about it.
package templates
