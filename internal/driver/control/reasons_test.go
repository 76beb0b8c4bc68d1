package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReasonsExpire: if many types have reasons, each is kept only while it is repeated. The
// reasons of few types are kept for good.
func TestReasonsExpire(t *testing.T) {
	now := time.Now()
	var r Reasons
	r.Note("Cart", "nobody hosts it", now)
	r.Expire(now.Add(time.Hour))
	require.Equal(t, "nobody hosts it", r.Said("Cart", now.Add(time.Hour)))
	for i := range 1000 {
		r.Note(fmt.Sprint("invented-", i), "nobody hosts it", now)
	}
	r.Note("Cart", "nobody hosts it", now.Add(2*reasonLife))
	r.Expire(now.Add(2 * reasonLife))
	require.Len(t, r.kind, 1)
	require.NotEmpty(t, r.Lately("Cart", now.Add(2*reasonLife)))
}

// TestMemberForgetsReasons: a member's Tick expires reasons.
func TestMemberForgetsReasons(t *testing.T) {
	m, env, _ := newTestMember(t)
	for i := range 1000 {
		m.reasons.Note(fmt.Sprint("invented-", i), "nobody hosts it", env.now)
	}
	env.now = env.now.Add(2 * reasonLife)
	m.Tick()
	require.Zero(t, len(m.reasons.kind))
}
