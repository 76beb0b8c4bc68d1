package coordinator

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// step has the time and the settings of one Step, and its decisions so far.
type step struct {
	config Config
	now    time.Time
	out    Output
	// superseded reports that a higher term exists. The coordinator does nothing any more then.
	superseded bool

	reap bool // the view changed: look for shards of members that are gone
	plan bool // something changed that allocation or balance depend on
}

// send puts a message to a process into the output; to all members if to is zero.
func (c *step) send(to transport.Address, m Message) {
	c.out.Send = append(c.out.Send, Envelope{to, m})
}

// event puts an event into the output.
func (c *step) event(e Event) { c.out.Events = append(c.out.Events, e) }

// refuse reports a message that is not taken.
func (c *step) refuse(from transport.Address, m Message, reason string) {
	c.event(Event{What: Refused, Node: from, Reason: fmt.Sprintf("%s: %s", nameOf(m), reason)})
}
