package shard

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestEventsSlowReader: a reader that is too slow loses events. It learns how many, and goes on
// from a view that includes them.
func TestEventsSlowReader(t *testing.T) {
	var v events
	s := v.subscribe()
	var self transport.Address
	publish := func(n int) {
		m := membership.Member{Address: transport.Address{Name: fmt.Sprint("n", n)}, Status: membership.Up}
		view := &membership.View{ByAge: []membership.MemberView{{Member: m}}}
		v.publish(view, []membership.Event{membership.MemberUp{Member: m}, membership.JoinFailed{}})
	}
	next := func() string {
		e, ok := v.next(s, self)
		if !ok {
			return "nothing"
		}
		if e.Kind == EventView && len(e.View.Members) > 0 {
			return e.String() + " with " + e.View.Members[0].Name
		}
		return e.String()
	}
	publish(1)
	require.Equal(t, "view of 1 members after 1 events were missed with n1", next(), "the first view holds what came before it was read")
	require.Equal(t, "nothing", next())
	for n := range eventBuffer {
		publish(n)
	}
	require.Equal(t, "up n0#0000000000000000", next(), "a full buffer loses nothing")
	publish(1000)
	publish(1001)
	publish(1002)
	require.Equal(t, "view of 1 members after 258 events were missed with n1002", next())
	require.Equal(t, "nothing", next())
	publish(1003)
	require.Equal(t, "up n1003#0000000000000000", next())
	v.unsubscribe(s)
	publish(1004)
	require.Equal(t, "nothing", next())
}
