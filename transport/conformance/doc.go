// Package conformance is the suite that every transport passes. It is imported
// by tests only.
package conformance
