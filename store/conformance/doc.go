// Package conformance is the suite that every store passes. It is imported by
// tests only.
package conformance
