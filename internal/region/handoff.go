package region

import (
	"fmt"
	"strings"
)

// A Handoff is how a shard moves. Both homes must have the same one. With the zero value
// the shard's state moves with it, and each sender's calls run in the order in which they
// were made. The numbers are those of the options in the Akka Cluster specification
// (graceful handoff); the zero value is its 2b, 3b and 4a.
type Handoff struct {
	// Serving: the old home runs turns until the new one is ready (2a). State that they
	// change does not move.
	Serving bool
	// DropCalls: the old home drops calls that arrive while it gives the shard away (2c).
	// Their senders may try again.
	DropCalls bool
	// Unordered: the new home runs a sender's calls as they arrive, even while older
	// ones may still arrive through the old home (3a).
	Unordered bool
	// Refusing: once the new home has the shard, the old home refuses calls that still
	// arrive, and names the new home (4b).
	Refusing bool
	// DropState: the state stays behind.
	DropState bool
}

// CheckState returns an error if entities with state cannot move that way.
func (h Handoff) CheckState() error {
	var bad []string
	if h.Serving {
		bad = append(bad, "serving would lose changes that turns make while the state is being sent")
	}
	if h.Unordered && !h.DropState {
		bad = append(bad, "unordered would run calls out of order")
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("the type has state: %s", strings.Join(bad, ", and "))
}

// String joins the names of the set fields by "+": "ordered" if none is set, and
// "drop-state" alone, which implies others.
func (h Handoff) String() string {
	if h.DropState {
		return "drop-state"
	}
	var words []string
	for _, o := range []struct {
		on   bool
		word string
	}{{h.Serving, "serving"}, {h.DropCalls, "drop-calls"}, {h.Unordered, "unordered"}, {h.Refusing, "refusing"}} {
		if o.on {
			words = append(words, o.word)
		}
	}
	if words == nil {
		return "ordered"
	}
	return strings.Join(words, "+")
}
