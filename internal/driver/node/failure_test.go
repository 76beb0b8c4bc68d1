package node

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutcomesForOperators: operators learn how a call failed, but not the text of its error.
func TestOutcomesForOperators(t *testing.T) {
	nested := &callError{CallFailure{Kind: "User", ID: "secret", Method: "Charge", Err: context.DeadlineExceeded}}
	returned := &callError{CallFailure{Kind: "User", ID: "secret", Method: "Charge", Text: "secret", Panic: true}}
	for _, tt := range []struct {
		failure failure
		want    string
	}{
		{failure{err: errors.New("secret")}, "executed: it returned an error"},
		{failure{err: fmt.Errorf("%w: secret", ErrActivation)}, "not executed: the entity could not be activated"},
		{failure{err: returned, panics: true}, "executed: it panicked"},
		{failure{err: returned}, "executed: its call of User.Charge returned an error"},
		{failure{err: fmt.Errorf("secret: %w", nested)}, "executed: its call of User.Charge failed"},
		{failure{err: fmt.Errorf("secret: %w", context.DeadlineExceeded)}, "executed: its deadline passed"},
		{failure{err: context.Canceled}, "executed: its context was canceled"},
	} {
		require.Equal(t, tt.want, tt.failure.outcome(testConfig().ReadCallError))
	}
}
