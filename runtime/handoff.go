package shard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/core/region"
)

// A HandoffMode is a way in which shards move, for [Handoff]. The comments of the modes have the
// numbers of the options for graceful handoff in the Akka Cluster specification.
type HandoffMode int

// The ways in which shards may move, each with its number in the Akka Cluster specification.
const (
	// HandoffOrdered is the default: 2b, 3b and 4a. State moves with the shard. Calls that arrive
	// while the old home gives the shard away wait (2b). The new home holds a sender's calls until
	// that sender's earlier calls have arrived (3b). The old home forwards calls that still arrive
	// there (4a). HandoffOrdered cannot be combined with other modes.
	HandoffOrdered HandoffMode = iota
	// HandoffServing makes the old home run turns until the new one is ready (2a). It is
	// for types without state.
	HandoffServing
	// HandoffDropCalls makes the old home drop calls that arrive while it gives the shard away
	// (2c): callers try again until their deadlines, and tells are lost. It cannot be combined with
	// HandoffServing.
	HandoffDropCalls
	// HandoffUnordered makes the new home run calls in the order of arrival (3a). It is
	// for types without state.
	HandoffUnordered
	// HandoffRefusing makes the old home refuse calls that still arrive once the new home
	// has the shard (4b). Their senders send them to the new home.
	HandoffRefusing
	// HandoffDropState leaves the state behind, so that every entity is fresh at the new
	// home. It includes HandoffDropCalls, HandoffUnordered and HandoffRefusing (2c, 3a,
	// 4b), and cannot be combined with other modes.
	HandoffDropState
)

// String names the mode.
func (m HandoffMode) String() string {
	names := []string{"ordered", "serving", "drop-calls", "unordered", "refusing", "drop-state"}
	if m < 0 || int(m) >= len(names) {
		return fmt.Sprintf("HandoffMode(%d)", int(m))
	}
	return names[m]
}

// Handoff sets how the type's shards move. Only HandoffOrdered, or HandoffServing for a type
// without state, keeps the order of each sender's calls across a move. Default HandoffOrdered, and
// for a pool HandoffServing with HandoffUnordered: the next instance is ready before the old one ends. A
// member with other modes than the cluster is refused when it joins.
func Handoff(modes ...HandoffMode) HostOption {
	return func(s *hostSettings) { s.Handoff, s.handoffErr = handoffOf(modes) }
}

func handoffOf(modes []HandoffMode) (h region.Handoff, err error) {
	for _, m := range modes {
		switch m {
		case HandoffOrdered:
		case HandoffServing:
			h.Serving = true
		case HandoffDropCalls:
			h.DropCalls = true
		case HandoffUnordered:
			h.Unordered = true
		case HandoffRefusing:
			h.Refusing = true
		case HandoffDropState:
			h = region.Handoff{DropCalls: true, Unordered: true, Refusing: true, DropState: true}
		default:
			return h, fmt.Errorf("%v is not a mode of Handoff", m)
		}
		if alone := m == HandoffOrdered || m == HandoffDropState; alone && len(modes) > 1 {
			return h, fmt.Errorf("mode %v cannot be combined with other modes", m)
		}
	}
	if slices.Contains(modes, HandoffServing) && slices.Contains(modes, HandoffDropCalls) {
		return h, errors.New("modes serving and drop-calls cannot be combined")
	}
	return h, nil
}
