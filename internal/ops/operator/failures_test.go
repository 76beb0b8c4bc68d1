package operator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(after time.Duration) time.Time { return start.Add(after) }

func methods(found []Failure) (all []string) {
	for _, f := range found {
		all = append(all, f.Method)
	}
	return all
}

// TestLastFailures checks that the log returns an entity's last failures, the latest first, until
// they expire.
func TestLastFailures(t *testing.T) {
	var l FailureLog
	ann, bob := EntityID{"User", "ann"}, EntityID{"User", "bob"}
	require.Empty(t, l.Of(ann, start))
	for i := range failuresEach + 2 {
		l.Note(ann, fmt.Sprint("m", i), "failed", at(time.Duration(i)*time.Minute))
	}
	l.Note(bob, "b", "failed", at(8*time.Minute))
	require.Equal(t, []string{"m6", "m5", "m4", "m3", "m2"}, methods(l.Of(ann, at(8*time.Minute))))
	require.Equal(t, []string{"b"}, methods(l.Of(bob, at(8*time.Minute))))
	require.Equal(t, []string{"m6", "m5"}, methods(l.Of(ann, at(failureLasts+4*time.Minute))), "the others have expired")
	require.Empty(t, l.Of(ann, at(failureLasts+6*time.Minute)))
	require.Len(t, l.of, 1, "an entity whose failures have expired has no place")
	l.Note(ann, "new", "failed", at(failureLasts+8*time.Minute))
	require.Equal(t, []string{"new"}, methods(l.Of(ann, at(failureLasts+8*time.Minute))))
	require.Len(t, l.of, 1)
	require.Equal(t, 1, l.order.Len())
}

// TestBoundedFailures checks that a further entity replaces the one whose last failure is the
// oldest.
func TestBoundedFailures(t *testing.T) {
	var l FailureLog
	old := EntityID{"User", "old"}
	l.Note(old, "first", "failed", start)
	for i := range maxFailed - 1 {
		l.Note(EntityID{"User", fmt.Sprint(i)}, "m", "failed", at(time.Second))
	}
	l.Note(old, "second", "failed", at(2*time.Second))
	l.Note(EntityID{"User", "one more"}, "m", "failed", at(3*time.Second))
	require.Len(t, l.of, maxFailed)
	require.Equal(t, maxFailed, l.order.Len())
	require.Equal(t, []string{"second", "first"}, methods(l.Of(old, at(4*time.Second))))
	require.Empty(t, l.Of(EntityID{"User", "0"}, at(4*time.Second)))
}
