package durablehost

import "time"

// A pace says how many appends a process has under way. More than the store works on at a time
// only wait there, while a shard whose append waits here gets more commits into it: of n callers at
// s shards, of which k have an append under way, an append has n/s / (1/2 + k/s) commits.
//
// Where an append takes its time without anybody working, because the store is far, a limit costs
// throughput instead. So the limit follows how long appends take, compared with the fastest of late.
// The zero value is not limited before the first round of answers.
type pace struct {
	limit   int           // 0 means none yet
	fastest time.Duration // of this period and the one before; 0 means none
	next    time.Duration // the fastest of this period
	period  time.Time     // when this one began
	sum     time.Duration // of the answers in this round
	answers int           // in this round
}

const (
	leastUnder = 24 // which keeps two busy processors from waiting for each other
	mostUnder  = 1024
	// roundAnswers is how many answers come before the limit is looked at again.
	roundAnswers = 64
	// An append that takes so many times as long as the fastest has waited for others: below growAt
	// the limit is doubled, above shrinkAt it is halved.
	growAt, shrinkAt = 4, 8
	// fastestPeriod bounds how long an append counts as the fastest, to twice as much.
	fastestPeriod = 10 * time.Second
	// longestHold bounds the wait of an append for others. Appends that have not been answered by
	// then may be of a stream that has no leader, and do not count any more.
	longestHold = 10 * time.Millisecond
)

// answered notes how long an append took.
func (p *pace) answered(now time.Time, took time.Duration) {
	if now.Sub(p.period) >= fastestPeriod {
		p.fastest, p.next, p.period = p.next, 0, now
	}
	if p.next == 0 || took < p.next {
		p.next = took
	}
	if p.fastest == 0 || took < p.fastest {
		p.fastest = took
	}
	p.sum += took
	if p.answers++; p.answers < roundAnswers {
		return
	}
	switch mean := p.sum / roundAnswers; {
	case p.limit == 0:
		p.limit = leastUnder
	case mean < growAt*p.fastest:
		p.limit = min(2*p.limit, mostUnder)
	case mean > shrinkAt*p.fastest:
		p.limit = max(p.limit/2, leastUnder)
	}
	p.sum, p.answers = 0, 0
}

// room returns how many of the appends that wait are to leave, with so many under way. Where all are
// more than the limit, they leave together once a third of it is under way: one by one each would
// wake this process and the server anew.
func (p *pace) room(under, wait int) int {
	switch {
	case p.limit == 0 || under+wait <= p.limit:
		return wait
	case under > p.limit/3:
		return 0
	}
	return p.limit - under
}
