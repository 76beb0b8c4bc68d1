package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// TestTellTooLargeForTheBrokerIsUndelivered: Close reports tells that have become too large for the
// broker, by whether they may have run. It does not report forwarded tells of other processes.
func TestTellTooLargeForTheBrokerIsUndelivered(t *testing.T) {
	member := transport.Peer{Address: transport.Address{Name: "b", Incarnation: identity.New(identity.Member)}}
	drv := NewDriver(testConfig(), transport.Peer{Address: transport.Address{Name: "a", Incarnation: identity.New(identity.Member)}}, knowing{members: []transport.Address{member.Address}})
	session, env := drv.Sessions.Session(member, 0), &peersEnv{driver: drv}
	own := wire.Envelope{Type: wire.TypeTell}
	forwarded := wire.Envelope{Type: wire.TypeTell, Node: transport.Peer{Address: transport.Address{Name: "c", Incarnation: identity.New(identity.Member)}}}
	for _, o := range []stream.Oversize{
		{Envelope: own, NotExecuted: true},
		{Envelope: own},
		{Envelope: forwarded, NotExecuted: true},
	} {
		env.Oversize(session, &o)
	}
	require.EqualValues(t, 3, drv.Counts[tellLost].Load())
	require.ErrorContains(t, drv.Undelivered.Since(0, 0), "closed before 2 tells were delivered: 1 did not run")
}
