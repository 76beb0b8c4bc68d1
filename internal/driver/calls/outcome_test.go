package calls

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
)

// TestAnswered: the next step and the outcome for each code, for a call without a command, with a
// command, and with a command of which an attempt may have run.
func TestAnswered(t *testing.T) {
	tests := []struct {
		code    wire.Code
		step    Step
		outcome Outcome
		command Step // with a command
		unsure  Step // with a command of which an attempt may have run
	}{
		{wire.CodeOK, Return, Executed, Return, Return},
		{wire.CodeMethodError, Return, Executed, Return, Return},
		{wire.CodePanic, Return, Executed, Return, Return},
		{wire.CodeTooLarge, Return, Executed, Return, Return},
		{wire.CodeNoResult, Return, Executed, Return, Return},
		{wire.CodeMoved, SendAgain, NotExecuted, SendAgain, SendAgain},
		{wire.CodeDropped, SendAgain, NotExecuted, SendAgain, SendAgain},
		{wire.CodeStopped, SendAgain, NotExecuted, SendAgain, SendAgain},
		{wire.CodeOverloaded, Return, NotExecuted, Return, SendAgain},
		{wire.CodeCircular, Return, NotExecuted, Return, Return},
		{wire.CodeUnknownKind, Return, NotExecuted, Return, Return},
		{wire.CodeNoMethod, Return, NotExecuted, Return, Return},
		{wire.CodeBadArgs, Return, NotExecuted, Return, Return},
		{wire.CodeActivation, Return, NotExecuted, Return, Return},
		{wire.CodeExpired, Return, NotExecuted, Return, Return},
		{wire.CodeCanceled, Return, NotExecuted, Return, Return},
		{wire.CodeUnsendable, Return, NotExecuted, Return, Return},
		{wire.CodeInDoubt, Return, Unknown, SendAgain, SendAgain},
		{wire.CodeRefused, Return, NotExecuted, Return, Return},
		{wire.CodeCommitLarge, Return, NotExecuted, Return, Return},
		{wire.CodeForbidden, Return, NotExecuted, Return, Return},
		{wire.CodeIntercepted, Return, NotExecuted, Return, Return},
		{wire.CodeReused, Return, NotExecuted, Return, Return},
		{wire.CodeForgotten, Return, Executed, Return, Return},
		{999, Return, Unknown, Return, Return},
		{Expired, Withdraw, Unknown, Withdraw, Withdraw},
		{Lost, Return, Unknown, SendAgain, SendAgain},
		{Unsent, Return, NotExecuted, Return, Return},
		{Unrepeatable, Return, Unknown, Return, Return},
		{Closed, Withdraw, Unknown, Withdraw, Withdraw},
		{Shed, Return, NotExecuted, Return, Return},
		{Denied, Return, Unknown, Return, Return},
		{TurnedAway, Return, Unknown, Return, Return},
	}
	for _, test := range tests {
		step, outcome := NextStep(test.code, nil)
		require.Equal(t, test.step, step, "code %d", test.code)
		require.Equal(t, test.outcome, outcome, "code %d", test.code)
		fresh, unsure := Command{}, Command{Unsure: true}
		step, _ = NextStep(test.code, &fresh)
		require.Equal(t, test.command, step, "code %d of a command", test.code)
		require.Equal(t, test.step == Return && step == SendAgain, fresh.Unsure, "code %d makes a command unsure", test.code)
		step, _ = NextStep(test.code, &unsure)
		require.Equal(t, test.unsure, step, "code %d of an unsure command", test.code)
		require.True(t, unsure.Unsure)
	}
}

func TestPause(t *testing.T) {
	var got []time.Duration
	for _, try := range []int{0, 1, 5, 6, 1000} {
		got = append(got, Pause(try))
	}
	require.Equal(t, []time.Duration{time.Millisecond, 2 * time.Millisecond, 32 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond}, got)
}

func TestOutcomes(t *testing.T) {
	for how, want := range map[Withdrawal]Outcome{
		WithdrawnUnsent: NotExecuted, WithdrawnQueued: NotExecuted, WithdrawnUndelivered: NotExecuted,
		WithdrawnBegun: Unknown, WithdrawnDelivered: Unknown,
	} {
		require.Equal(t, want, Withdrawn(how))
	}
	sure, unsure := Command{}, Command{Unsure: true}
	require.Equal(t, NotExecuted, sure.Final(NotExecuted, false))
	require.Equal(t, Unknown, unsure.Final(NotExecuted, false))
	require.Equal(t, NotExecuted, unsure.Final(NotExecuted, true))
	require.Equal(t, Executed, unsure.Final(Executed, false))
	for v, want := range map[region.Verdict]Local{
		region.Run: Run, region.Queued: Wait, region.Moved: Encode, region.Forward: Encode, region.Shed: Encode,
		region.Overloaded: Refuse, region.Circular: Refuse,
	} {
		require.Equal(t, want, NextLocally(v), "%v", v)
	}
}
