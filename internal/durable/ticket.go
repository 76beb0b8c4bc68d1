package durable

// A Ticket numbers the entries that one [Shard] appends, in the order of the log. Zero is
// durable from the beginning.
type Ticket uint64
