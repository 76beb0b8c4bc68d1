// Package apart tests two entities that call each other, each with its client in a separate
// package.
package apart
