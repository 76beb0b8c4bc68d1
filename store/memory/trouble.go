package memory

import (
	"math/rand/v2"
	"time"
)

// Trouble draws faults at random. Each number is the probability of a fault in an operation, 0 to
// 1, and each duration the upper bound of random ones. The zero value does nothing.
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
