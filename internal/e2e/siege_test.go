package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
)

// TestHostileSiege is the command hostile: three processes under attack by a client, a caller of the
// gateway and all their lies at once, while another client calls. HOSTILE_MESSAGES is the number of messages
// of the attack, by default few. With many, the limits of the command are judged too: slower calls of
// others, and memory, which are noise in a short attack. HOSTILE_RATE is how many of them are sent a second,
// by default as many as the server takes.
func TestHostileSiege(t *testing.T) {
	if testing.Short() {
		t.Skip("a siege takes half a minute")
	}
	s := hostile.Siege{Messages: 20_000, Callers: 4, Pause: 5 * time.Millisecond, Quiet: time.Second, Recovery: time.Second, Log: t.Output()}
	asked := os.Getenv("HOSTILE_MESSAGES")
	if asked != "" {
		n, err := strconv.Atoi(asked)
		require.NoError(t, err, "HOSTILE_MESSAGES")
		s.Messages, s.Callers, s.Quiet, s.Recovery = n, 16, 5*time.Second, 3*time.Minute
		if rate := os.Getenv("HOSTILE_RATE"); rate != "" {
			s.Rate, err = strconv.Atoi(rate)
			require.NoError(t, err, "HOSTILE_RATE")
		}
	}
	var out strings.Builder
	held, err := s.Run(t.Context(), &out)
	t.Logf("%d messages:\n%s", s.Messages, &out)
	require.NoError(t, err) // all members live, and are the same
	if asked != "" {
		require.True(t, held, "a figure misses its limit")
		return
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "MISS") && !strings.Contains(line, "p99 of the other") && !strings.Contains(line, "RSS") && !strings.Contains(line, "memory") {
			t.Error(line)
		}
	}
}
