package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// unknown is the first command that only a later version knows.
const unknown = operator.Command(200)

// done records what a process has done for an operator.
type done struct {
	steps  []membership.Input
	left   int
	states int
	joins  bool
}

// request sends an operator's request to a member. The cluster has one other member, b. It returns
// the refusal, if any, and what the process did and logged.
func request(t *testing.T, from transport.Peer, r operator.Request) (refusal string, did done, env *fakeEnv) {
	t.Helper()
	m, env, machine := newTestMember(t)
	for _, a := range []transport.Address{self, other} {
		machine.view.ByAddress = append(machine.view.ByAddress, membership.MemberView{Member: membership.Member{Address: a, Status: membership.Up}, Reachable: true})
	}
	body, err := operator.Encode(7, &r, nil)
	require.NoError(t, err)
	m.Receive(transport.Message{
		From: from.Address, Payload: wire.SealControl("c", from, wire.ControlTopic_CONTROL_TOPIC_ADMIN, body),
	}, env.now)
	require.Len(t, env.sent, 1, "answers")
	_, _, body, err = wire.OpenControl("c", env.sent[0])
	require.NoError(t, err)
	id, _, a, err := operator.Decode(body)
	require.NoError(t, err)
	require.EqualValues(t, 7, id)
	return a.Refusal, done{without(machine.steps, membership.MessageLimit{Bytes: m.limit()}), env.ordered, len(env.stated), m.members.joining}, env
}

var other = transport.Address{Name: "b", Incarnation: 1}

func without(all []membership.Input, unwanted membership.Input) (rest []membership.Input) {
	for _, in := range all {
		if in != unwanted {
			rest = append(rest, in)
		}
	}
	return rest
}

// commands are all commands that change something or show state, with their effect and their log
// line.
var commands = map[string]struct {
	operator.Request
	does done
	line string
}{
	"join":          {operator.Request{Command: operator.Join, Node: self}, done{steps: []membership.Input{membership.Start{}}, joins: true}, "told to join by op seeds \n"},
	"leave":         {operator.Request{Command: operator.Leave, Node: self}, done{left: 1}, "told to leave by op\n"},
	"down another":  {operator.Request{Command: operator.Down, Node: other, Force: true}, done{steps: []membership.Input{membership.DownNode{Node: other}}}, "told to down a member by op member b#0000000000000001 force true\n"},
	"down itself":   {operator.Request{Command: operator.Down, Node: self, Force: true}, done{steps: []membership.Input{membership.DownNode{Node: self}}}, "told to down a member by op member a#0000000000000002 force true\n"},
	"set a state":   {operator.Request{Command: operator.SetState, Node: self, Entity: operator.Entity{Kind: "K", ID: "x", State: []byte("abc")}}, done{states: 1}, "told to set a state by op kind K entity x bytes 3\n"},
	"drop a state":  {operator.Request{Command: operator.SetState, Node: self, Entity: operator.Entity{Kind: "K", ID: "x"}}, done{states: 1}, "told to set a state by op kind K entity x bytes 0\n"},
	"cancel":        {operator.Request{Command: operator.CancelReminder, Node: self, Entity: operator.Entity{Kind: "K", ID: "x"}, Reminder: "r"}, done{states: 1}, "told to cancel reminder by op kind K entity x reminder r\n"},
	"place":         {operator.Request{Command: operator.Place, Node: self, Entity: operator.Entity{Kind: "K", ID: "x"}, Home: "b"}, done{states: 1}, "told to pin a shard by op kind K entity x home b\n"},
	"move":          {operator.Request{Command: operator.MoveShard, Node: self, Entity: operator.Entity{Kind: "K"}, Count: 5, Home: "b"}, done{states: 1}, "told to move a shard by op kind K shard 5 home b\n"},
	"show a state":  {operator.Request{Command: operator.State, Node: self, Entity: operator.Entity{Kind: "K", ID: "x"}}, done{states: 1}, "told to show a state by op kind K entity x\n"},
	"rebalance":     {operator.Request{Command: operator.Rebalance, Node: self}, done{states: 1}, "told to rebalance by op\n"},
	"pause":         {operator.Request{Command: operator.PauseRebalancing, Node: self}, done{states: 1}, "told to pause rebalancing by op\n"},
	"resume":        {operator.Request{Command: operator.ResumeRebalancing, Node: self}, done{states: 1}, "told to resume rebalancing by op\n"},
	"later version": {operator.Request{Command: unknown, Node: self}, done{}, ""},
}

// TestCommandIsLogged: each command that is carried out is logged once, with the operator's name.
func TestCommandIsLogged(t *testing.T) {
	for name, c := range commands {
		t.Run(name, func(t *testing.T) {
			refusal, did, env := request(t, operates, c.Request)
			require.Equal(t, c.does, did)
			require.Empty(t, env.counted)
			if c.Command == unknown {
				require.Contains(t, refusal, "is unknown to this version (upgrade this node)")
				require.Empty(t, env.lines)
				return
			}
			require.Empty(t, refusal)
			require.Equal(t, []string{c.line}, env.lines)
		})
	}
}

// TestRefusedCommandDoesNothing: a command that the member cannot carry out is refused with the
// reason, and is not logged as carried out.
func TestRefusedCommandDoesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		operator.Request
		why string
	}{
		"leave of another":           {operator.Request{Command: operator.Leave, Node: other}, "this node is a#"},
		"down of one that is up":     {operator.Request{Command: operator.Down, Node: other}, "is up and reachable"},
		"down of itself, not forced": {operator.Request{Command: operator.Down, Node: self}, "is up and reachable"},
		"down of no member":          {operator.Request{Command: operator.Down, Node: operates.Address, Force: true}, "is not a member"},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, did, env := request(t, operates, c.Request)
			require.Contains(t, refusal, c.why)
			require.Equal(t, done{}, did)
			require.Empty(t, env.lines)
		})
	}
}

// TestReaderCommandsNothing: every command of an operator who may only look is refused with the
// reason and has no effect, even a command that only a later version knows.
func TestReaderCommandsNothing(t *testing.T) {
	for name, c := range commands {
		t.Run(name, func(t *testing.T) {
			refusal, did, env := request(t, looks, c.Request)
			want := c.Command.String() + " needs a connection of class operator"
			if c.Command == unknown {
				want = "is unknown to this version (upgrade this node)"
			}
			require.Contains(t, refusal, want)
			require.Equal(t, done{}, did)
			require.Equal(t, []Counter{Forbidden}, env.counted)
			require.Empty(t, env.lines)
		})
	}
}

// TestQueriesAreForReaders: queries are answered on a connection that may only look, and refused on
// a connection for commands. They are not logged.
func TestQueriesAreForReaders(t *testing.T) {
	for _, c := range []operator.Command{operator.Members, operator.RollCall, operator.Inspect} {
		t.Run(c.String(), func(t *testing.T) {
			r := operator.Request{Command: c, Node: self}
			want := done{}
			if c == operator.Inspect {
				want.states = 1
			}
			refusal, did, env := request(t, looks, r)
			require.Empty(t, refusal)
			require.Equal(t, want, did)
			require.Empty(t, env.counted)
			require.Empty(t, env.lines)
			refusal, did, env = request(t, operates, r)
			require.Contains(t, refusal, c.String()+" needs a connection of class reader")
			require.Equal(t, done{}, did)
			require.Equal(t, []Counter{Forbidden}, env.counted)
		})
	}
}

// TestBroadcastCommandOfAReader: the process that a reader's broadcast command is for refuses it,
// and other processes do not answer.
func TestBroadcastCommandOfAReader(t *testing.T) {
	for node, answers := range map[transport.Address]int{self: 1, other: 0} {
		m, env, machine := newTestMember(t)
		body, err := operator.Encode(7, &operator.Request{Command: operator.Down, Node: node, Force: true}, nil)
		require.NoError(t, err)
		require.NoError(t, m.operatorMessage(transport.Broadcast, looks, body))
		require.Len(t, env.sent, answers, node.Name)
		require.Empty(t, machine.steps)
	}
}

// TestProcessDownsAMember: a process can down a member by its own API, unless that is refused.
func TestProcessDownsAMember(t *testing.T) {
	m, env, machine := newTestMember(t)
	b := transport.Address{Name: "b", Incarnation: 1}
	machine.view.ByAddress = []membership.MemberView{{Member: membership.Member{Address: b, Status: membership.Up}, Reachable: true}}
	machine.view.ByAge = machine.view.ByAddress
	require.Error(t, m.Down("b", false))
	require.NotContains(t, machine.steps, membership.Input(membership.DownNode{Node: b}))
	require.NoError(t, m.Down("b", true))
	require.Contains(t, machine.steps, membership.Input(membership.DownNode{Node: b}))
	require.NotEmpty(t, env.lines)
}
