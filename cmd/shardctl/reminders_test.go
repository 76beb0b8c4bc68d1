package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/vault"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestReminders lists and cancels reminders, also after an export and an import.
func TestReminders(t *testing.T) {
	t.Parallel()
	url := runJetStream(t, t.TempDir()).URL()
	begin := func() (*vault.AlarmClient, func()) {
		n := shard.New(shard.Config{
			Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, vault.HostAlarm(n, func() *vault.Alarm { return &vault.Alarm{} }))
		require.NoError(t, n.Start(t.Context()))
		return vault.NewAlarmClient(n), func() { require.NoError(t, n.Shutdown(t.Context())) }
	}
	alarms, stop := begin()
	env := map[string]string{"NATS_URL": url, "SHARD_CLUSTER": "bank"}
	expect := func(args string, code int, stdout, stderr string) {
		t.Helper()
		o := shardctl(t, env, args)
		require.Equal(t, code, o.code, "%s: %s", args, o.stderr)
		require.Contains(t, o.stdout, stdout, args)
		require.Contains(t, o.stderr, stderr, args)
	}
	expect("reminders Alarm a", exitOK, "Alarm/a has no reminders\n", "")
	due := time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, alarms.Tell("a", shard.At(due), shard.Named("once")).Ring(t.Context(), "x"))
	require.NoError(t, alarms.Tell("a", shard.Cron("0 9 * * *", "Europe/Berlin")).Ring(t.Context(), "y"))
	expect("reminders Alarm a", exitOK, "once  Ring    2099-01-02T03:04:05Z  never", "")
	expect("reminders Alarm a", exitOK, "0 9 * * * Europe/Berlin", "")
	expect("reminders Alarm a -json", exitOK, `{"name":"once","method":"Ring","due":"2099-01-02T03:04:05Z"}`+"\n", "")
	expect("reminders Alarm a -retry once", exitFailed, "", `has no reminder "once" for that`)
	expect("reminders Alarm a -cancel Ring", exitOK, "once", "")
	expect("reminders Alarm a -cancel Ring", exitFailed, "", "has no reminder")
	expect("reminders Nothing a", exitFailed, "", "Nothing")

	stop()
	image := filepath.Join(t.TempDir(), "image")
	expect("store export -o "+image, exitOK, "", "")
	_, err := os.Stat(image)
	require.NoError(t, err)
	expect("store delete Alarm -force", exitOK, "", "")
	expect("store import -from "+image, exitOK, "", "")
	_, stop = begin()
	defer stop()
	expect("reminders Alarm a", exitOK, "once", "")
}
