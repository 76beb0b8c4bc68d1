package cluster

// Frames are the data frames that processes have sent, and those of them that took direct lanes.
type Frames struct{ All, Direct uint64 }

// A Count has the frames of each process of a cluster.
type Count struct {
	nodes   map[*Node]Frames
	callers []Frames // of Dial, in order
}

// Nodes are the frames of all nodes together.
func (c Count) Nodes() (sum Frames) {
	for _, f := range c.nodes {
		sum.add(f)
	}
	return sum
}

// Callers are the frames of all callers together.
func (c Count) Callers() (sum Frames) {
	for _, f := range c.callers {
		sum.add(f)
	}
	return sum
}

// Since are the frames that were sent after an earlier count. Those of processes that have ended
// meanwhile are left out.
func (c Count) Since(earlier Count) Count {
	since := Count{nodes: make(map[*Node]Frames)}
	for n, f := range c.nodes {
		before := earlier.nodes[n] // none if it was started later
		since.nodes[n] = Frames{f.All - before.All, f.Direct - before.Direct}
	}
	for i, f := range c.callers {
		if i < len(earlier.callers) {
			f = Frames{f.All - earlier.callers[i].All, f.Direct - earlier.callers[i].Direct}
		}
		since.callers = append(since.callers, f)
	}
	return since
}

func (f *Frames) add(o Frames) { f.All, f.Direct = f.All+o.All, f.Direct+o.Direct }
