package calls

import "testing"

type delayed struct{ published int }

func (d *delayed) Publish() { d.published++ }

// TestLastCallerPublishes: a session whose publishing is left to woken callers is published once,
// by the last of them.
func TestLastCallerPublishes(t *testing.T) {
	var f Coalescer
	f.calls.Add(3 * oneUnderWay)
	var d delayed
	f.Wake(2)
	f.Delay(&d)
	f.Resumed()
	if d.published != 0 {
		t.Fatal("published while another caller is about to run")
	}
	f.Resumed()
	if d.published != 1 {
		t.Fatalf("published %d times after the last caller ran, want once", d.published)
	}
	f.GaveUp()
	if n := f.UnderWay(); n != 0 || f.Woken() != 0 {
		t.Errorf("%d calls are under way and %d callers woken, want none", n, f.Woken())
	}
	if d.published != 1 {
		t.Errorf("published %d times, want once", d.published)
	}
}

// TestNobodyIsLeftToPublish: a session that is delayed after the last woken caller ran is published
// at once. Sessions delayed before the next answers come are published before these wake callers.
func TestNobodyIsLeftToPublish(t *testing.T) {
	var f Coalescer
	f.calls.Add(2 * oneUnderWay)
	var first, second delayed
	f.Delay(&first)
	if first.published != 1 {
		t.Errorf("published %d times with nobody to run, want once", first.published)
	}
	f.Wake(1)
	f.Delay(&second)
	f.Wake(1)
	if second.published != 1 {
		t.Errorf("published %d times when more answers came, want once", second.published)
	}
}
