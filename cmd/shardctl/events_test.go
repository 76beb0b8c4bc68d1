package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMoments: times on the command line are durations before now, times of the last 24 hours, or have
// their date.
func TestMoments(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 24, 8, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"30m": "2026-11-24T08:00:00+01:00", "0s": "2026-11-24T08:30:00+01:00", "02:14": "2026-11-24T02:14:00+01:00", "02:14:30": "2026-11-24T02:14:30+01:00",
		"23:50": "2026-11-23T23:50:00+01:00", "2026-11-20 02:14": "2026-11-20T02:14:00+01:00", "2026-11-20 02:14:05": "2026-11-20T02:14:05+01:00",
		"2026-11-20T02:14": "2026-11-20T02:14:00+01:00", "2026-11-20T02:14:00Z": "2026-11-20T02:14:00Z", "-1s": "", "yesterday": "", "25:00": "",
	} {
		got, err := momentOf(text, now)
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got.Format(time.RFC3339), text)
	}
	at, err := spanOf("02:14", "", "", now)
	require.NoError(t, err)
	for text, within := range map[string]bool{"02:11:59": false, "02:12": true, "02:16": true, "02:16:01": false} {
		moment, err := momentOf(text, now)
		require.NoError(t, err)
		require.Equal(t, within, at.has(moment), text)
	}
	_, err = spanOf("02:14", "1h", "", now)
	require.ErrorContains(t, err, "give either -at alone")
	open, err := spanOf("", "1h", "", now)
	require.NoError(t, err)
	require.True(t, open.has(now.Add(time.Hour)), "events -f goes on")
	require.False(t, open.has(now.Add(-2*time.Hour)))
}
