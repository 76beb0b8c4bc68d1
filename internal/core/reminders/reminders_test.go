package reminders

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/wire"
)

const hour = int64(time.Hour / time.Millisecond)

func at(name string, due int64) *wire.DurableSchedule {
	return &wire.DurableSchedule{Reminder: &wire.DurableReminder{Name: name, Method: "M", Kind: uint32(schedule.KindOnce), Due: due}}
}

func every(name string, period int64) *wire.DurableSchedule {
	return &wire.DurableSchedule{Reminder: &wire.DurableReminder{Name: name, Method: "M", Kind: uint32(schedule.KindEvery), Period: period}}
}

func set(t *testing.T, l List, request *wire.DurableSchedule, version uint64, now int64) List {
	t.Helper()
	l, err := l.Set(request, "e", version, now)
	require.NoError(t, err)
	return l
}

func anyMethod(string) bool { return true }

// TestSet: a reminder replaces one with the same name, and the reminders of an entity are bounded.
func TestSet(t *testing.T) {
	l := set(t, nil, at("a", 100), 1, 5)
	l = set(t, l, at("b", 300), 2, 5)
	replaced := set(t, l, at("a", 200), 3, 5)
	require.Len(t, replaced, 2)
	require.Equal(t, int64(100), l[0].GetDue(), "the list before is not changed")
	require.Equal(t, []int64{300, 200}, []int64{replaced[0].GetDue(), replaced[1].GetDue()})
	require.Equal(t, uint64(3), replaced[1].GetSet())
	after := set(t, nil, &wire.DurableSchedule{Reminder: &wire.DurableReminder{Method: "M", Kind: uint32(schedule.KindOnce)}, After: 7}, 1, 5)
	require.Equal(t, int64(12), after[0].GetDue())
	require.Equal(t, "M", after[0].GetName(), "that of the method")

	for i := range MaxCount {
		after = set(t, after, at(fmt.Sprint(i%(MaxCount-1)), 1), 1, 0)
	}
	_, err := after.Set(at("one more", 1), "e", 1, 0)
	require.ErrorContains(t, err, "64 reminders already")
	large := at("large", 1)
	large.Reminder.Args = bytes.Repeat([]byte{1}, MaxBytes)
	_, err = l.Set(large, "e", 1, 0)
	require.ErrorContains(t, err, "at most 16384")
	_, err = l.Set(every("short", 10), "e", 1, 0)
	require.ErrorContains(t, err, "at least 1s")
}

// TestJitter: a reminder always has the same delay, and entities have different delays.
func TestJitter(t *testing.T) {
	delays := map[int64]bool{}
	for i := range 20 {
		request := every("a", 5000)
		request.Reminder.Jitter = 1000
		l, err := List(nil).Set(request, fmt.Sprint(i), 1, 0)
		require.NoError(t, err)
		delay := l[0].GetDue() - 5000
		require.True(t, 0 <= delay && delay < 1000, "delay %d", delay)
		delays[delay] = true
		var r Retries
		look := r.Look(fmt.Sprint(i), l, 20_000, hour, anyMethod)
		require.Equal(t, 20_000+delay, look.Following.GetDue(), "on the grid, with the same delay")
	}
	require.Greater(t, len(delays), 10)
}

// TestLook: the earliest due reminder runs, and its next due time is on its grid.
func TestLook(t *testing.T) {
	l := set(t, set(t, set(t, nil, at("late", 900), 1, 0), every("each", 1000), 1, 0), at("first", 800), 1, 0)
	var r Retries
	require.Equal(t, Look{}, r.Look("e", l, 799, hour, anyMethod))
	look := r.Look("e", l, 3500, hour, anyMethod)
	require.Equal(t, "first", look.Run.GetName())
	require.Nil(t, look.Following)
	r.Succeeded("e", look.Run)
	l = l.Replaced(look.Run, look.Following)
	require.Len(t, l, 2)
	look = r.Look("e", l, 3500, hour, anyMethod)
	require.Equal(t, "late", look.Run.GetName())
	l = l.Replaced(look.Run, look.Following)
	look = r.Look("e", l, 3500, hour, anyMethod)
	require.Equal(t, "each", look.Run.GetName())
	require.Equal(t, 2, look.Missed)
	require.Equal(t, int64(4000), look.Following.GetDue())
	require.Equal(t, uint64(1), look.Following.GetSet())
	l = l.Replaced(look.Run, look.Following)
	require.Equal(t, int64(4000), l[0].GetDue())
	require.Equal(t, l, l.Replaced(look.Run, nil), "it is not there any more")
}

// TestRetries: tries are 1 s apart, doubling up to 5 min, until the reminder is given up. Other
// reminders of the entity run meanwhile.
func TestRetries(t *testing.T) {
	l := set(t, set(t, nil, at("bad", 1000), 1, 0), at("good", 1500), 1, 0)
	var r Retries
	var pauses []time.Duration
	now, ran := int64(1000), int64(0)
	for range 100 {
		look := r.Look("e", l, now, hour, anyMethod)
		if look.GivenUp {
			require.Equal(t, "bad", look.Ended.GetName())
			require.GreaterOrEqual(t, now, 1000+hour)
			l = l.Replaced(look.Ended, look.Following)
			break
		}
		if look.Run.GetName() == "good" { // while the other one waits
			require.Equal(t, int64(1500), now)
			r.Succeeded("e", look.Run)
			l = l.Replaced(look.Run, nil)
			now = r.Look("e", l, now, hour, anyMethod).Again
			continue
		}
		require.Equal(t, "bad", look.Run.GetName())
		if ran > 0 {
			pauses = append(pauses, time.Duration(now-ran)*time.Millisecond)
		}
		ran = now
		again := r.Look("e", l, now, hour, anyMethod)
		require.Greater(t, again.Again, now)
		now = again.Again
	}
	require.Equal(t, "[1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s]", fmt.Sprint(pauses[:10]))
	require.Len(t, l, 1)
	require.NotEmpty(t, l[0].GetAside())
	require.Equal(t, Look{}, r.Look("e", l, now+hour, hour, anyMethod), "it is not tried any more")
	require.Empty(t, r.of)

	_, ok := l.Retried("good")
	require.False(t, ok)
	retried, ok := l.Retried("bad")
	require.True(t, ok)
	require.Equal(t, "bad", r.Look("e", retried, now+hour, hour, anyMethod).Run.GetName())

	l = set(t, l, at("bad", now), 9, 0)
	require.Equal(t, 0, r.Look("e", l, now, hour, anyMethod).Tries, "one that was set again has no tries")
}

// TestRetryOfSkipLate: a reminder that was given up runs again on request, however late that is.
func TestRetryOfSkipLate(t *testing.T) {
	request := at("a", 1000)
	request.Reminder.SkipLate = 2 * hour
	l := set(t, nil, request, 1, 0)
	l[0].Aside = "it failed"
	l, ok := l.Retried("a")
	require.True(t, ok)
	var r Retries
	require.NotNil(t, r.Look("e", l, 24*hour, hour, anyMethod).Run)
}

// TestGivenUpGoesOn: a reminder that is given up continues with its next due time, if it has one.
func TestGivenUpGoesOn(t *testing.T) {
	l := set(t, nil, every("each", 1000), 1, 0)
	var r Retries
	for now := int64(1000); ; {
		look := r.Look("e", l, now, hour, anyMethod)
		if look.GivenUp {
			require.Empty(t, look.Following.GetAside())
			require.Greater(t, look.Following.GetDue(), now)
			return
		}
		now = max(now+1, look.Again)
	}
}

// TestUnknownMethod: a reminder of an unknown method waits, and is not given up.
func TestUnknownMethod(t *testing.T) {
	l := set(t, nil, at("a", 1000), 1, 0)
	var r Retries
	now := int64(1000)
	for range 300 {
		look := r.Look("e", l, now, hour, func(string) bool { return false })
		require.ErrorContains(t, look.Err, "no method")
		require.Equal(t, now+30_000, look.Again)
		now = look.Again
	}
	require.NotNil(t, r.Look("e", l, now, hour, anyMethod).Run, "a program with the method has come")
}

// TestSkipLate: a reminder that is too late does not run.
func TestSkipLate(t *testing.T) {
	request := every("a", 1000)
	request.Reminder.SkipLate = 300
	l := set(t, nil, request, 1, 0)
	var r Retries
	look := r.Look("e", l, 1500, hour, anyMethod)
	require.Nil(t, look.Run)
	require.Equal(t, "a", look.Ended.GetName())
	require.Equal(t, int64(2000), look.Following.GetDue())
	require.NotNil(t, r.Look("e", l, 1300, hour, anyMethod).Run)
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(at("a", 1)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		request, err := Decode(b)
		if err != nil {
			return
		}
		l, err := List(nil).Set(request, "e", 1, 1)
		if err != nil {
			return
		}
		var r Retries
		r.Look("e", l, 1<<40, hour, anyMethod)
		again, err := Decode(Encode(request))
		if err != nil || !slices.Equal(Encode(again), Encode(request)) {
			t.Errorf("%v, %v", again, err)
		}
	})
}

// TestOthersGoOn: a reminder that waits for its method, or for its next try, does not hold up other
// reminders, whether these are due already or later.
func TestOthersGoOn(t *testing.T) {
	unknown := at("unknown", 1000)
	unknown.Reminder.Method = "Unknown"
	known := func(method string) bool { return method != "Unknown" }
	l := set(t, set(t, set(t, nil, unknown, 1, 0), at("due", 2000), 1, 0), at("soon", 4000), 1, 0)
	var r Retries
	look := r.Look("e", l, 3000, hour, known)
	require.ErrorContains(t, look.Err, "Unknown")
	require.NotNil(t, look.Run)
	require.Equal(t, "due", look.Run.GetName())
	r.Succeeded("e", look.Run)
	l = l.Replaced(look.Run, look.Following)
	look = r.Look("e", l, 3000, hour, known)
	require.Nil(t, look.Run)
	require.Equal(t, int64(4000), look.Again, "when the other one is due")
}

// TestRetriesOfCancelled: the tries of a reminder that was cancelled, or has moved, do not stay in
// memory for long.
func TestRetriesOfCancelled(t *testing.T) {
	var r Retries
	for i := range 10_000 {
		now := int64(i+1) * 1000
		require.NotNil(t, r.Look(fmt.Sprint(i), set(t, nil, at("a", now), 1, 0), now, hour, anyMethod).Run)
	}
	require.Less(t, len(r.of), 1500)
}

func FuzzDecodeList(f *testing.F) {
	f.Add(Encode(List{at("a", 1).GetReminder()}.Message()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeList(b)
		if err != nil {
			return
		}
		var r Retries
		r.Look("e", l, 1<<40, hour, anyMethod)
		again, err := DecodeList(Encode(l.Message()))
		if err != nil || again.Due() != l.Due() {
			t.Fatalf("%v: %v, then %v", err, l, again)
		}
	})
}
