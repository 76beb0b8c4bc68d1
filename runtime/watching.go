package shard

import (
	"context"
	"iter"
)

// Cluster returns the cluster as this node sees it now. Its cost is proportional to the
// number of members; [Node.Events] returns only changes.
func (n *Node) Cluster() ClusterView {
	v := n.events.current()
	if v == nil {
		return ClusterView{Self: n.driver.Local.Address}
	}
	return clusterView(v)
}

// Events returns the changes of the cluster as this node sees them: first an EventView,
// then every change in order. The loop ends when ctx does, or with the last event when
// the node has stopped (see [Node.Err] for the reason). It may begin before Start, and
// there may be any number of loops.
//
//	for e := range node.Events(ctx) {
//		log.Println(e)
//	}
//
// A reader never delays the node. If it falls more than 256 events behind, these are
// dropped, and it continues with an EventView that has their number in Missed.
func (n *Node) Events(ctx context.Context) iter.Seq[ClusterEvent] {
	return func(yield func(ClusterEvent) bool) {
		s := n.events.subscribe()
		defer n.events.unsubscribe(s)
		for ctx.Err() == nil {
			if e, ok := n.events.next(s, n.driver.Local.Address); ok {
				if !yield(e) {
					return
				}
				continue
			}
			select {
			case <-s.signal:
			case <-ctx.Done():
			case <-n.done:
				if n.events.empty(s) {
					return
				}
			}
		}
	}
}
