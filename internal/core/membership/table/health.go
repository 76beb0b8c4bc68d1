package table

import "time"

// maxHealth is the worst score of a member's own health.
const maxHealth = 8

// A health is this node's judgement of its own health, by five of the six signs in the Orleans
// paper: whether others suspect it, whether its probes are answered, whether others probe it, how
// long its work waits, and whether its timers are on time. Each bad sign adds to the score. A
// higher score lengthens this node's own time-outs, so a sick node is voted out before it votes
// others out. The sixth sign ends the node: the table no longer has the node as active.
type health struct {
	score    int
	missed   int       // probes in a row without an answer
	answered time.Time // when a probe was answered last
	probed   time.Time // when the last probe came
	slow     time.Time // when work last waited for more than a second
	tardy    time.Time // when a timer was last three seconds late
	began    time.Time
}

const (
	slowWork  = time.Second
	tardyTime = 3 * time.Second
	// signLife is how long a sign of trouble counts, in multiples of ProbeInterval.
	signLife = 3
)

// waited records how long a message waited in the driver's queue.
func (h *health) waited(m *Machine, d time.Duration) {
	if d > slowWork {
		h.slow = m.Now
	}
}

// late records by how much a timer was late.
func (h *health) late(m *Machine, d time.Duration) {
	if d > tardyTime {
		h.tardy = m.Now
	}
}

func (h *health) run(m *Machine) {
	if h.began.IsZero() {
		h.began, h.answered, h.probed = m.Now, m.Now, m.Now
	}
	life := signLife * m.Config.Table.ProbeInterval
	recent := func(at time.Time) bool { return !at.IsZero() && m.Now.Sub(at) < life }
	score := len(m.fresh(m.self()))
	others := len(m.table.Summary().Ages) > 1
	if others && h.missed > 0 && !recent(h.answered) {
		score++
	}
	if others && !recent(h.probed) {
		score++
	}
	if recent(h.slow) {
		score++
	}
	if recent(h.tardy) {
		score++
	}
	score = min(score, maxHealth)
	m.stale = m.stale || score != h.score
	h.score = score
}
