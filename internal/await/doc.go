// Package await is how a goroutine waits for the answer to its call: until the answer has
// come, or the call's deadline has passed, or its context has ended.
package await
