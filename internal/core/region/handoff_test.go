package region

import (
	"strings"
	"testing"
)

// TestStateMovesInOrder: entities with state do not move in a way in which turns change the state
// that is being sent, or in which calls of one sender may run out of order. They may move unordered
// if the state stays behind.
func TestStateMovesInOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		how  Handoff
		want []string // parts of the error
	}{
		"ordered":    {Handoff{}, nil},
		"drop-calls": {Handoff{DropCalls: true}, nil},
		"refusing":   {Handoff{Refusing: true}, nil},
		"serving":    {Handoff{Serving: true}, []string{"serving would lose changes"}},
		"unordered":  {Handoff{Unordered: true}, []string{"unordered would run calls out of order"}},
		"both":       {Handoff{Serving: true, Unordered: true}, []string{"serving would lose changes", ", and unordered would"}},
		"drop-state": {Handoff{DropCalls: true, Unordered: true, Refusing: true, DropState: true}, nil},
	} {
		err := tt.how.CheckState()
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range tt.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}
