package node

// A Signal wakes a goroutine that receives from it. Those sent while nobody receives count as one.
type Signal chan struct{}

func newSignal() Signal { return make(Signal, 1) }

// Notify wakes a receiver, unless one is already being woken. It never blocks.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}
