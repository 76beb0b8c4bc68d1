// Package apart tests entities of two packages that call each other, with clients
// in packages of their own.
package apart
