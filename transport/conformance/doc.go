// Package conformance is the test suite that every transport must pass. Only tests import it.
package conformance
