package durable

import (
	"fmt"
	"slices"
)

// A window has commands of one source in the order of their numbers, each once. Numbers come nearly
// in that order, and go from the low end. So a command is looked up in a time that grows with the
// logarithm of how many are above it, and put by moving those; a rise of the floor goes through the
// removed ones and the stuck ones. Nothing is allocated for a command.
type window struct {
	all  []numbered // the commands from head on; the others are zero, and used again when it is full
	head int
}

// A numbered is a command without a path.
type numbered struct {
	number uint64
	applied
}

// keptWindow is how many commands a window that is empty keeps room for.
const keptWindow = 256

// commands are those of the window. They may be changed, but for their numbers.
func (w *window) commands() []numbered { return w.all[w.head:] }

// find returns the place of a number, and reports whether it is there. It looks at 1, 2, 4, …
// commands from the end, and then between the last two.
func (w *window) find(number uint64) (at int, there bool) {
	low, high := w.head, len(w.all) // the place is one of these, or between them
	for step := 1; high-step >= w.head; step *= 2 {
		if w.all[high-step].number < number {
			low = high - step + 1
			break
		}
		high -= step
	}
	for low < high {
		if middle := int(uint(low+high) / 2); w.all[middle].number < number {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(w.all) && w.all[low].number == number
}

// get returns the command of a number, or nil. It holds until the window changes.
func (w *window) get(number uint64) *applied {
	if at, there := w.find(number); there {
		return &w.all[at].applied
	}
	return nil
}

// put adds a command, or replaces it. The returned one holds until the window changes.
func (w *window) put(number uint64, a applied) *applied {
	at, there := w.find(number)
	if !there {
		at -= w.makeRoom()
		w.all = append(w.all, numbered{})
		copy(w.all[at+1:], w.all[at:])
	}
	w.all[at] = numbered{number, a}
	return &w.all[at].applied
}

// makeRoom moves the commands to the beginning if all is full and half of it was removed. It
// returns how far. Less would be moved too often.
func (w *window) makeRoom() (moved int) {
	if len(w.all) < cap(w.all) || w.head < len(w.all)-w.head {
		return 0
	}
	moved = w.head
	left := copy(w.all, w.all[w.head:])
	clear(w.all[left:])
	w.all, w.head = w.all[:left], 0
	return moved
}

// remove takes a command out, if it is there.
func (w *window) remove(number uint64) {
	at, there := w.find(number)
	if !there {
		return
	}
	if at == w.head {
		w.cut(at + 1)
		return
	}
	w.all = slices.Delete(w.all, at, at+1)
}

// removeIf takes those out that are finished.
func (w *window) removeIf(f finished, removed func(name, *applied)) {
	end := w.head
	for end < len(w.all) && w.all[end].number < f.below {
		end++
	}
	head := end
	for at := end - 1; at >= w.head; at-- {
		if c := &w.all[at]; f.has(c.number) {
			removed(name{number: c.number}, &c.applied)
		} else { // it is stuck, as few are
			head--
			w.all[head] = *c
		}
	}
	w.cut(head)
}

// cut takes all out that is before head.
func (w *window) cut(head int) {
	clear(w.all[w.head:head]) // of answers, too
	w.head = head
	switch {
	case head < len(w.all):
	case cap(w.all) > keptWindow:
		*w = window{}
	default:
		w.all, w.head = w.all[:0], 0
	}
}

func (w *window) check() error {
	for i, c := range w.all {
		switch {
		case i < w.head && (c.number != 0 || c.answer != nil):
			return fmt.Errorf("number %d is before the head, and not zero", c.number)
		case i > w.head && c.number <= w.all[i-1].number:
			return fmt.Errorf("number %d behind number %d", c.number, w.all[i-1].number)
		}
	}
	if w.head > 0 && w.head >= len(w.all) {
		return fmt.Errorf("the head is %d, of %d", w.head, len(w.all))
	}
	return nil
}
