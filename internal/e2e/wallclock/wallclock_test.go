package wallclock

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestShift: the wall clock of a program that Build has built can be shifted. Its monotonic clock
// goes on, and so do the wall clocks of other processes.
func TestShift(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the standard library anew")
	}
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "clock")
	if err := Build(t.Context(), "./testdata/clock", program); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Unix()
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var unix int64
	if _, err := fmt.Sscanf(string(out), "unix %d", &unix); err != nil || unix < before || unix > time.Now().Unix() {
		t.Errorf("it began at %d (%v), want the time of this process, %d", unix, err, before)
	}
	const want = `wall 1h0m0s monotonic 0s right 0s
wall -1h0m0s monotonic 0s right 0s
wall 0s monotonic 0s right 0s
`
	if got := string(out[len(fmt.Sprintln("unix", unix)):]); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNoShift: a program that was built as usual has the right time and cannot shift it.
func TestNoShift(t *testing.T) {
	if err := Shift(time.Hour); err == nil {
		t.Error("shifted")
	}
	if off := time.Since(Now()); off < 0 || off > time.Minute {
		t.Errorf("now is %v off", off)
	}
}
