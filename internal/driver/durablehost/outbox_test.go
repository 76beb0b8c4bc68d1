package durablehost

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// TestOutboxSendsATellOnceAtATime: a tell that is due again while it is sent waits for the end of
// that attempt. Afterwards it is sent again. At most maxTells are sent at a time.
func TestOutboxSendsATellOnceAtATime(t *testing.T) {
	var o outbox
	tell := durable.Tell{Number: 1, Sending: new(bool)}
	o.put(tell)
	o.put(tell)
	require.Len(t, o.next(), 1)
	o.put(tell)
	require.Empty(t, o.next(), "it is sent twice at a time")
	o.done(tell)
	o.put(tell)
	require.Len(t, o.next(), 1, "it is not sent again")
	o.done(tell)

	all := make([]durable.Tell, maxTells+1)
	for i := range all {
		all[i].Sending = new(bool)
		o.put(all[i])
	}
	require.Len(t, o.next(), maxTells)
	require.Empty(t, o.next())
	o.done(all[0])
	require.Len(t, o.next(), 1)
}
