package direct

import (
	"testing"
)

// TestDrained: a process that has closed its lanes learns when nothing more is received: neither
// before Close, nor before the last connection has ended.
func TestDrained(t *testing.T) {
	a, _, ofA, _ := pair(t)
	drained := func() bool {
		select {
		case <-a.lanes.Drained():
			return true
		default:
			return false
		}
	}
	idle := newBroker().process(t, memberA, "127.0.0.1:0")
	select {
	case <-idle.lanes.Drained():
		t.Fatal("drained before Close")
	default:
	}
	idle.lanes.Close()
	<-idle.lanes.Drained() // it has no connection

	a.lanes.Close()
	if drained() {
		t.Fatal("drained although frames of a connection are received")
	}
	a.lanes.Ended(ofA)
	if !drained() {
		t.Fatal("not drained although the last connection has ended")
	}
	a.lanes.Close() // twice
}
