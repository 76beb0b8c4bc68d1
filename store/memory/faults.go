package memory

import (
	"math/rand/v2"
	"time"
)

// An Op is one operation that may be met by a fault.
type Op struct {
	Name  string // as Op in store.Error
	Key   string // as in store.Error
	Write bool   // it changes something, renewing and releasing leases too
}

// A Fault is a failure of an operation. The zero value does nothing.
type Fault struct {
	// Delay passes before the operation reaches the server. Below 0 is 0.
	Delay time.Duration
	// Answer passes before the answer comes, after the server has done its part.
	// Below 0 is 0.
	Answer time.Duration
	// Loss is the lost part.
	Loss Loss
	// Late is how much later a write arrives that meets LoseTouch. Below 0 is 0.
	Late time.Duration
	// Busy has the server refuse a write to a shard with store.ErrBusy.
	Busy bool
	// Follower has a read of a shard answered by the replica that Server.Lag holds
	// back, if it is as new as the read asks for.
	Follower bool
}

// A Loss is the part of an operation that gets lost.
type Loss uint8

// The losses.
const (
	// LoseNothing: it is done and answered.
	LoseNothing Loss = iota
	// LoseConnection: nothing is sent; the answer is store.ErrUnavailable.
	LoseConnection
	// LoseRequest: it never reaches the server, and the caller cannot tell: a
	// write is answered by store.ErrUncertain, a read by store.ErrUnavailable.
	LoseRequest
	// LoseAnswer: it is done, and the caller is answered as by LoseRequest.
	LoseAnswer
	// LoseTouch: the caller is answered as by LoseRequest, and a write is done
	// later, when Fault.Late has passed, unless the server stops before. A read is
	// never done.
	LoseTouch
	// LoseHalf: of a Put of a shard's records the first half of the changes is done,
	// of anything else nothing; the caller is answered as by LoseRequest.
	LoseHalf
)

// Trouble draws faults at random. Each number is the probability of a fault, 0 to 1, and
// each duration the bound of the drawn ones. The zero value does nothing.
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

// Faults returns all faults, for [Client.Fault] and [Server.Fault]. The same seed of
// random and the same operations make the same faults.
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
