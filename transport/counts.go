package transport

// Counts are the messages that a channel had to give up since it was opened.
type Counts struct {
	// Dropped arrived when the queue before Receive was full. It may count too
	// few of a connection that broke meanwhile.
	Dropped uint64
	// Foreign arrived on the link's subjects and are not what a link sends.
	Foreign uint64
	// Denied were refused by the broker after Send had returned, for lack of
	// permission.
	Denied uint64
}

// A Counter is a [Link] that tells what it had to give up; the links of the
// adapters below this package all are.
type Counter interface {
	Counts(ch Channel) Counts
}
