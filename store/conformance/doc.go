// Package conformance is the test suite that every store must pass. Only tests import it.
package conformance
