package shard

// A signal wakes a goroutine that receives from it. Those sent while nobody receives count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// notify wakes a receiver, unless one is already being woken. It never blocks.
func (s signal) notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}
