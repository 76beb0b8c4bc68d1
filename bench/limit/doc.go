// Package limit is code written by hand on NATS and on TCP: requests, batches, and acknowledged
// publishes. Remote calls cannot beat its batches. Benchmarks compare with it.
package limit
