package fault

import "fmt"

// A Subject is the kind of entities that a fault is about, which decides how it is run and judged.
type Subject int

// The subjects of faults.
const (
	// UnderLoad: a cluster whose entities are called all the time. Do runs it and, if
	// Times is set, Notice too.
	UnderLoad Subject = iota
	// OnSingleton: the node of a singleton that is called all the time, Times times.
	// Handed runs it. It is judged by Limits.Failed, Limits.Lost (callers that were
	// forgotten) and Limits.Pause.
	OnSingleton
	// OnRemembered: a node with remembered entities that nobody calls, Times times.
	// Activate runs it. It is judged by Limits.Recovery.
	OnRemembered
	// OnEveryNode: all nodes together, Times times, while a client from outside stays.
	// RestartAll runs it. It is judged by Limits.Recovery.
	OnEveryNode
	// OnDurable: nodes or servers of durable entities that are called all the time, Times
	// times. Durable runs it, by Hit. It is judged by Limits.Failed, Lost, Doubled and Recovery.
	OnDurable
)

// String names the subject.
func (s Subject) String() string {
	switch s {
	case UnderLoad:
		return "a cluster under load"
	case OnSingleton:
		return "a singleton's node"
	case OnRemembered:
		return "a node with remembered entities"
	case OnEveryNode:
		return "all nodes together"
	case OnDurable:
		return "a cluster with durable entities"
	}
	return fmt.Sprintf("Subject(%d)", int(s))
}
