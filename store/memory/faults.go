package memory

import (
	"math/rand/v2"
	"time"
)

// An Op is one operation, for which a fault is chosen.
type Op struct {
	Name  string // as Op in store.Error
	Key   string // as in store.Error
	Write bool   // a write; renewing or releasing a lease counts as one
}

// A Fault is a failure of an operation. The zero value means no failure.
type Fault struct {
	// Delay is the time until the operation reaches the server. Below 0 counts as 0.
	Delay time.Duration
	// Answer is the time from the server's work to the arrival of its answer. Below 0 counts as 0.
	Answer time.Duration
	// Loss is the part of the operation that is lost.
	Loss Loss
	// Late is the further delay of a write with LoseTouch. Below 0 counts as 0.
	Late time.Duration
	// Busy makes the server refuse a write to a shard with store.ErrBusy.
	Busy bool
	// Follower makes the replica that Server.Lag keeps behind answer a read of a shard, if this
	// replica has the revision that the read requires.
	Follower bool
}

// A Loss is the part of an operation that is lost.
type Loss uint8

// The parts of an operation that may be lost.
const (
	// LoseNothing: the operation is done and answered.
	LoseNothing Loss = iota
	// LoseConnection: nothing is sent, and the caller gets store.ErrUnavailable.
	LoseConnection
	// LoseRequest: the request never reaches the server, but the caller cannot know that. So a
	// write fails with store.ErrUncertain, and a read with store.ErrUnavailable.
	LoseRequest
	// LoseAnswer: the operation is done, but the caller gets the error of LoseRequest.
	LoseAnswer
	// LoseTouch: the caller gets the error of LoseRequest. A write is done later, when Fault.Late
	// has passed, unless the server stops before. A read is never done.
	LoseTouch
	// LoseHalf: the caller gets the error of LoseRequest. A Put of a shard's records does the first
	// half of its changes; other operations are not done.
	LoseHalf
)

// Trouble draws faults at random. Each number is the probability of one fault, 0 to 1, and each
// duration is the upper bound of the delays that are drawn. The zero value draws no faults.
type Trouble struct {
	Cut           float64 // LoseConnection
	RequestLost   float64 // LoseRequest
	AnswerLost    float64 // LoseAnswer
	ArrivesLate   float64 // LoseTouch
	HalfDone      float64 // LoseHalf
	Busy          float64 // Fault.Busy
	Stale         float64 // Fault.Follower
	LongestDelay  time.Duration
	LongestAnswer time.Duration
	Latest        time.Duration // of Fault.Late
}

// Faults returns a function that draws the faults of t, for [Client.Fault] and [Server.Fault]. With
// the same seed of random, the same operations get the same faults.
func (t Trouble) Faults(random *rand.Rand) func(Op) Fault {
	between := func(d time.Duration) time.Duration {
		if d <= 0 {
			return 0
		}
		return time.Duration(random.Int64N(int64(d)))
	}
	return func(Op) Fault {
		f := Fault{
			Delay: between(t.LongestDelay), Answer: between(t.LongestAnswer), Late: between(t.Latest),
			Busy: random.Float64() < t.Busy, Follower: random.Float64() < t.Stale,
		}
		at := random.Float64()
		for _, loss := range []struct {
			p    float64
			loss Loss
		}{
			{t.Cut, LoseConnection},
			{t.RequestLost, LoseRequest},
			{t.AnswerLost, LoseAnswer},
			{t.ArrivesLate, LoseTouch},
			{t.HalfDone, LoseHalf},
		} {
			if at < loss.p {
				f.Loss = loss.loss
				break
			}
			at -= loss.p
		}
		return f
	}
}
