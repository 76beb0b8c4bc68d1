package fault

import "fmt"

// faults are all that can be run, in the order they are listed.
var faults = []Fault{join, leave, leaveMany, rolling, overload, kill, pause, hang, natsOutage, natsRestart, singletonLeave, singletonKill, durableSingletonKill, remembered, durableKill, durableKillR3, durablePause, durableRestart, durableServer, serverCrashUnsynced, brokerStallKill, twoStores, durableServerR3, fullRestart, partition, oneWay, flipFlop, loss, longPause, poison, starved, clock, directCut, directBlackHole, directFlap}

// All returns all faults.
func All() []Fault { return append([]Fault(nil), faults...) }

// ByName finds a fault.
func ByName(name string) (Fault, error) {
	for _, f := range faults {
		if f.Name == name {
			return f, nil
		}
	}
	return Fault{}, fmt.Errorf("no fault is called %q (-list names them)", name)
}
