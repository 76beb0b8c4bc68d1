package transport

// Counts are the messages that a channel had to drop since it was opened, by reason.
type Counts struct {
	// Dropped counts messages that arrived when the queue before Receive was full. It may
	// be too low for a connection that broke meanwhile.
	Dropped uint64
	// Foreign counts messages on the link's subjects that no link has sent.
	Foreign uint64
	// Denied counts messages that the broker refused for lack of permission after Send
	// had returned.
	Denied uint64
}

// A Counter is a [Link] that counts its dropped messages. The links of this module's adapters are
// Counters.
type Counter interface {
	Counts(ch Channel) Counts
}
