package transport

// A Confidential is a [Link] that knows whether others can read its messages on their way. The
// links of the adapters in this module implement it.
type Confidential interface {
	// Confidential returns nil if the connection of Control to the broker is encrypted, or
	// does not leave this host, and otherwise an error that names the connection.
	Confidential() error
}
