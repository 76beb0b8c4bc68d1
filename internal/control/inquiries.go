package control

import (
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// inquiries are this process's questions to other members that wait for answers.
type inquiries struct {
	last uint64
	open map[uint64]func(transport.Address, coordinator.Message)
}

func (q *inquiries) begin(got func(transport.Address, coordinator.Message)) uint64 {
	q.last++
	q.open[q.last] = got
	return q.last
}

// answered brings an answer to its inquiry. Late ones are dropped.
func (q *inquiries) answered(id uint64, from transport.Address, m coordinator.Message) {
	if got := q.open[id]; got != nil {
		got(from, m)
	}
}
