// Package await lets a goroutine wait for the answer to its call: until the answer has
// arrived, the call's deadline has passed, or its context has ended.
package await
