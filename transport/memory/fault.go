package memory

// Any stands for every node in a Path.
const Any = "*"

// A Path is one direction between two nodes, by name. A fault on a path meets
// all its messages, also a node's to itself where a name is Any; the answer
// Unreachable is the broker's own and passes every fault.
type Path struct{ From, To string }

// A fault has the commanded faults of one path. A zero one does nothing.
type fault struct {
	cut  bool
	next int
	rate float64
	hold bool
	held []envelope
}

func (b *Broker) fault(p Path, change func(*fault)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.faults[p]
	if f == nil {
		f = &fault{}
		b.faults[p] = f
	}
	change(f)
}

// Cut loses everything on p until Mend: the sender notices nothing.
func (b *Broker) Cut(p Path) { b.fault(p, func(f *fault) { f.cut = true }) }

// Drop loses the next n messages on p.
func (b *Broker) Drop(p Path, n int) { b.fault(p, func(f *fault) { f.next = n }) }

// Lose loses each message on p with the given probability, 0 to 1, until Mend.
// The seed decides which.
func (b *Broker) Lose(p Path, probability float64) {
	b.fault(p, func(f *fault) { f.rate = probability })
}

// Hold keeps back everything on p until Release or Mend.
func (b *Broker) Hold(p Path) { b.fault(p, func(f *fault) { f.hold = true }) }

// Release ends Hold and delivers held messages in order. It returns how
// many that were.
func (b *Broker) Release(p Path) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.releaseLocked(b.faults[p])
}

// Mend ends all faults of p, and delivers held messages.
func (b *Broker) Mend(p Path) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseLocked(b.faults[p])
	delete(b.faults, p)
}

// Held is how many messages Hold keeps back on p now.
func (b *Broker) Held(p Path) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.faults[p]; f != nil {
		return len(f.held)
	}
	return 0
}

func (b *Broker) releaseLocked(f *fault) int {
	if f == nil {
		return 0
	}
	held := f.held
	f.hold, f.held = false, nil
	for _, e := range held {
		b.deliverLocked(e)
	}
	return len(held)
}

// faultsTakeLocked reports whether a fault keeps e. The most particular path goes
// first, so that which one counts a Drop is always the same.
func (b *Broker) faultsTakeLocked(e envelope) bool {
	if len(b.faults) == 0 {
		return false
	}
	from, to := e.from.link.self.Name, e.target()
	for _, p := range [...]Path{{from, to}, {from, Any}, {Any, to}, {Any, Any}} {
		f := b.faults[p]
		if f == nil {
			continue
		}
		switch {
		case f.cut:
		case f.next > 0:
			f.next--
		case f.rate > 0 && b.random.Float64() < f.rate:
		case f.hold && len(f.held) < b.options.QueueLength:
			f.held = append(f.held, e)
			return true
		case f.hold:
		default:
			continue
		}
		b.lost++
		return true
	}
	return false
}
