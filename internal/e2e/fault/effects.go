package fault

// Effects are those that the sales of tills had elsewhere, as one observer saw them. Each sale
// must be seen once, and those of one till in order.
type Effects struct {
	Observer            string
	Seen, Lost, Doubled int
}

// A tally counts the sales that one observer has seen of one till. They are numbered from 1.
type tally struct{ last, again, missed int64 }

// see notes a sale.
func (t *tally) see(total int64) {
	if total <= t.last {
		t.again++
		return
	}
	t.missed += total - t.last - 1
	t.last = total
}

// judge compares the tally of a till with the sales that it has acknowledged. As many as unsure
// may have happened besides.
func (e *Effects) judge(t tally, total, unsure int64) {
	e.Seen += int(t.last)
	e.Lost += int(t.missed + max(total-t.last, 0))
	e.Doubled += int(t.again + max(t.last-total-unsure, 0))
}
