package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestMembersWithoutServing: a member that is up is found even before it serves, as just after
// Start. A process that is not up is named in the error.
func TestMembersWithoutServing(t *testing.T) {
	for _, tc := range []struct {
		status membership.Status
		want   string
	}{
		{membership.Up, ""},
		{membership.Leaving, ""},
		{membership.Joining, "no member is up: web-1 is joining"},
		{membership.Down, "no member is up: web-1 is down"},
	} {
		t.Run(tc.status.String(), func(t *testing.T) {
			broker := memory.NewBroker(memory.Options{})
			self := answerRollCalls(t, broker, tc.status)
			c, err := admin.Dial(t.Context(), admin.Options{Cluster: "shop", Transport: broker.Transport()})
			require.NoError(t, err)
			defer c.Close()
			v, err := c.Members(t.Context())
			if tc.want != "" {
				require.ErrorIs(t, err, admin.ErrNoMember)
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, self, v.Self)
		})
	}
}

// answerRollCalls starts a process that answers only roll calls.
func answerRollCalls(t *testing.T, broker *memory.Broker, status membership.Status) transport.Address {
	return answer(t, broker, status, false, func(c operator.Command) bool { return c == operator.RollCall })
}

// answer starts a process that tells its status when it is asked by a command for which answers
// returns true. It ignores other commands. If serves is set, the broker may choose it for questions
// to any member.
func answer(t *testing.T, broker *memory.Broker, status membership.Status, serves bool, answers func(operator.Command) bool) transport.Address {
	self := transport.Address{Name: "web-1", Incarnation: 1}
	link, err := broker.Transport().Open(t.Context(), transport.Options{Cluster: "shop", Self: self, Lanes: 1})
	require.NoError(t, err)
	require.NoError(t, link.Serve(t.Context(), serves))
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = link.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			m, err := link.Receive(transport.Control)
			if err != nil {
				return
			}
			from, _, body, err := wire.OpenControl("shop", m.Payload)
			if err != nil {
				continue
			}
			id, r, _, err := operator.Decode(body)
			if err != nil || !answers(r.Command) {
				continue
			}
			answer, err := operator.Encode(id, nil, &operator.Answer{View: admin.View{Self: self, Status: status}})
			if err != nil {
				continue
			}
			sealed := wire.SealControl("shop", transport.Peer{Address: self}, wire.ControlTopic_CONTROL_TOPIC_ADMIN, answer)
			_ = link.Send(transport.Control, from, 0, sealed)
		}
	}()
	return self
}

// TestMembersBesideOneThatHangs: a question that the broker gives to a hanging member many times is
// still answered in time.
func TestMembersBesideOneThatHangs(t *testing.T) {
	const unanswered = 12
	asked := 0
	broker := memory.NewBroker(memory.Options{})
	self := answer(t, broker, membership.Up, true, func(c operator.Command) bool {
		if c == operator.Members {
			asked++
		}
		return c == operator.Members && asked > unanswered
	})
	c, err := admin.Dial(t.Context(), admin.Options{Cluster: "shop", Transport: broker.Transport()})
	require.NoError(t, err)
	defer c.Close()
	v, err := c.Members(t.Context())
	require.NoError(t, err)
	require.Equal(t, self, v.Self)
}
