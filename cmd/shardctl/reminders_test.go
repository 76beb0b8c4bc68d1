package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestReminders lists and cancels reminders, also after an export and an import.
func TestReminders(t *testing.T) {
	t.Parallel()
	url := runJetStream(t, t.TempDir()).URL()
	var bells *bank.BellClient
	begin := func() (*bank.AlarmClient, func()) {
		n := shard.New(shard.Config{
			Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, bank.HostAlarm(n, func() *bank.Alarm { return &bank.Alarm{} }))
		require.NoError(t, bank.HostBell(n, func() *bank.Bell { return &bank.Bell{} }))
		require.NoError(t, n.Start(t.Context()))
		bells = bank.NewBellClient(n)
		return bank.NewAlarmClient(n), func() { require.NoError(t, n.Shutdown(t.Context())) }
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
	open := func() { // all shards, which beside other tests may take longer than one question
		t.Helper()
		require.Eventually(t, func() bool { return shardctl(t, env, "reminders Alarm").code == exitOK }, time.Minute, 100*time.Millisecond)
	}
	expect("reminders Alarm a", exitOK, "Alarm/a has no reminders\n", "")
	open()
	expect("reminders Alarm", exitOK, "no entity of Alarm has reminders that are to run\n", "")
	due := time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, alarms.Tell("a", shard.At(due), shard.Named("once")).Ring(t.Context(), "x"))
	require.NoError(t, alarms.Tell("a", shard.Cron("0 9 * * *", "Europe/Berlin")).Ring(t.Context(), "y"))
	expect("reminders Alarm a", exitOK, "once  Ring    2099-01-02T03:04:05Z  never", "")
	expect("reminders Alarm a", exitOK, "0 9 * * * Europe/Berlin", "")
	expect("reminders Alarm a -json", exitOK, `{"name":"once","method":"Ring","due":"2099-01-02T03:04:05Z"}`+"\n", "")
	expect("reminders Alarm a -retry once", exitFailed, "", `has no reminder "once" for that`)
	for _, id := range []string{"b", "c", "d"} {
		require.NoError(t, alarms.Tell(id, shard.At(due.AddDate(0, 0, int('d'-id[0])))).Ring(t.Context(), "x"))
	}
	expect("reminders Alarm", exitOK, "d       2099-01-02T03:04:05Z\nc       2099-01-03T03:04:05Z\nb       2099-01-04T03:04:05Z\n", "")
	expect("reminders Alarm -limit 2 -json", exitOK, `{"id":"d","due":"2099-01-02T03:04:05Z"}`+"\n", "")
	expect("reminders Alarm -limit 2", exitOK, "there are more", "")
	expect("reminders Alarm -limit 4", exitOK, "b  ", "")
	expect("reminders Alarm -cancel once", exitFailed, "", "say which")
	for _, id := range []string{"late", "soon"} {
		require.NoError(t, bells.Tell(id, shard.At(due.Add(time.Duration(len(id)-int(id[0]))*time.Hour))).Ring(t.Context(), "x"))
	}
	expect("reminders Bell", exitOK, "soon    2098-", "")
	expect("reminders Bell", exitOK, "late    2098-", "")
	expect("reminders Nothing", exitFailed, "", "Nothing")
	expect("reminders Alarm a -cancel Ring", exitOK, "once", "")
	expect("reminders Alarm a -cancel Ring", exitFailed, "", "has no reminder")
	expect("reminders Nothing a", exitFailed, "", "Nothing")
	expect("reminders Alarm a -pause", exitFailed, "", "leave out the ID")
	expect("reminders Alarm -pause -resume", exitFailed, "", "exclude each other")
	expect("reminders Bell -pause", exitFailed, "", "the type is not durable")
	expect("reminders Alarm -pause", exitOK, "until shardctl reminders Alarm -resume", "")
	expect("reminders Alarm", exitOK, "paused since ", "")
	expect("reminders Alarm -resume", exitOK, "run again", "")
	require.NotContains(t, shardctl(t, env, "reminders Alarm").stdout, "paused")

	stop()
	image := filepath.Join(t.TempDir(), "image")
	expect("store export -o "+image, exitOK, "", "")
	_, err := os.Stat(image)
	require.NoError(t, err)
	expect("store delete Alarm -force", exitOK, "", "")
	expect("store import -pause -from "+image, exitOK, "", "")
	_, stop = begin()
	defer stop()
	open()
	require.Contains(t, shardctl(t, env, "reminders Alarm").stdout, " by import\n")
	expect("reminders Alarm", exitOK, "c       2099-01-03T03:04:05Z\n", "")
	expect("reminders Alarm a", exitOK, "once", "")
}
