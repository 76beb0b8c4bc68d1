package node

import (
	"sync"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
)

// heldTasks are the tasks that the present turn of a durable singleton has started. They begin when
// all that the turn has changed and seen is in the log: a task may tell others of it. It is safe for
// concurrent use, because a method may start tasks from its own goroutines.
type heldTasks struct {
	mu    sync.Mutex
	start []func()
}

func (h *heldTasks) add(start func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start = append(h.start, start)
}

func (h *heldTasks) take() (start []func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	start, h.start = h.start, nil
	return start
}

// release begins the tasks of a turn once the log has all up to the ticket. If it never has, the
// instance ends with the tenure.
func (h *heldTasks) release(tenure *durablehost.Tenure, ticket durable.Ticket) {
	if tasks := h.take(); len(tasks) > 0 {
		tenure.Then(ticket, func(err error) {
			for _, start := range tasks {
				if err == nil {
					start()
				}
			}
		})
	}
}
