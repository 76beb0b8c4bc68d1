package measure

import "time"

// Calls are the calls of a process since shard.New, or since Dial. Node.Calls and Conn.Calls return
// them. Counts are exact. About one in 64 of the calls that run on their callers' goroutines is
// timed, and more of the long ones; an untimed call counts with the duration of the previous timed
// one. Connections set only Made.
type Calls struct {
	Made    []Series // calls that the process has made, by Outcome and Cause; a tell ends when it is sent
	Turns   []Series // turns that the node has run, by Cause
	Waits   []Series // waits of arrived calls, for an open shard and a turn
	Commits []Series // waits of the answers of durable types for the store, after the turn
}

// A Series are the calls of one method that ended in one way.
type Series struct {
	Kind, Method string // Method is "_OTHER" for a method that the type does not have
	Tell         bool
	Outcome      string // a shard.Outcome, in Calls.Made
	Cause        string // why the calls failed, such as "entity", "overloaded" or "deadline"; "" means success
	Durations    []Bucket
}

// A Bucket counts the durations from From to below To. Buckets are not empty, and in order.
type Bucket struct {
	From, To time.Duration
	Count    uint64
}

// Count returns the number of calls.
func (s *Series) Count() (n uint64) {
	for _, b := range s.Durations {
		n += b.Count
	}
	return n
}

// Sum returns the total time of the calls, from the middles of their buckets: it is at most 6 %
// wrong.
func (s *Series) Sum() (sum time.Duration) {
	for _, b := range s.Durations {
		sum += time.Duration(b.Count) * ((b.From + b.To) / 2)
	}
	return sum
}
