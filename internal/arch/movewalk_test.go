package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// moveWalk is the way of a shard's move as a reader follows it, from the coordinator's
// order to its commit: each line is a file and the functions that are read there before the
// next one. Interfaces and generated code are left out, and so is the transport.
var moveWalk = []string{
	// The old home is told, and its last turn ends.
	"internal/control/member.go Receive dispatch",
	"internal/control/follower.go message step",
	"internal/coordinator/follower.go Step",
	"internal/control/follower.go order obey",
	"internal/shardhost/shard.go Obey BeginMove",
	"internal/shardhost/machine.go Do",
	"internal/region/shard.go BeginMove",
	"internal/region/moving.go beginMove drain",
	"internal/shardhost/machine.go applyLocked",
	"runtime/shard_env.go Drained",
	// Stop hooks run, and the state is sent.
	"internal/shardhost/shard.go HandOff",
	"internal/region/shard.go Stop",
	"internal/region/stopping.go beginStops",
	"runtime/shard_env.go StopEntities",
	"runtime/hosted_shard.go passivateAll",
	"internal/shardhost/shard.go send Parts",
	"internal/region/stopping.go States",
	"internal/shardhost/parts.go pack",
	"internal/region/shard.go Stopped",
	"internal/region/moving.go endMove",
	"internal/session/session.go AppendAll Flush",
	// The new home takes it, and answers Ready.
	"runtime/lane.go frame envelope",
	"internal/dataplane/plane.go Receive moveStep",
	"runtime/hosted_shard.go MoveStep",
	"internal/shardhost/shard.go Step prepare",
	"internal/shardhost/parts.go unpack",
	"internal/region/shard.go Prepare",
	"internal/region/placing.go prepare",
	// The old home forwards, and says Open.
	"internal/shardhost/shard.go Step ready",
	"internal/region/shard.go Ready",
	"internal/region/moving.go takeReady follow",
	"internal/shardhost/machine.go applyLocked forwardLocked openNextLocked",
	"internal/routing/route.go Learn Change",
	// The new home runs from here on.
	"internal/shardhost/shard.go Step OpenAt",
	"internal/region/shard.go OpenAt",
	"internal/region/placing.go openAt open",
	"internal/region/delivery.go redeliverAll",
	"internal/shardhost/machine.go applyLocked",
	"runtime/shard_env.go MoveDone",
	"internal/control/member.go MoveDone",
	"internal/control/reports.go opened sendDone",
	// The coordinator commits.
	"internal/control/seat.go step",
	"internal/coordinator/coordinator.go Step onReceive",
	"internal/coordinator/move.go onMoveDone commit",
	"internal/coordinator/table.go set publish",
}

// Bounds of that way. They are only ever lowered: docs/architecture.md says what they were.
const (
	maxMoveStays  = 45 // files opened, counting a file again whenever the reader comes back to it
	maxMoveFiles  = 22
	maxMoveVisits = 6 // to one file
)

// TestWalkOfAMove: each function of the walk stands in its file, and the walk is not longer
// than it was.
func TestWalkOfAMove(t *testing.T) {
	declared := map[string][]string{}
	for _, f := range loadTree(t) {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				declared[f.path] = append(declared[f.path], fn.Name.Name)
			}
		}
	}
	visits, former, stays := map[string]int{}, "", 0
	for _, line := range moveWalk {
		words := strings.Fields(line)
		file := words[0]
		if file == former {
			t.Errorf("%s follows itself: join the two lines", file)
		}
		former = file
		stays++
		visits[file]++
		for _, name := range words[1:] {
			if !slices.Contains(declared[file], name) {
				t.Errorf("%s declares no %s: follow the move anew", file, name)
			}
		}
	}
	most, where := 0, ""
	for file, n := range visits { //arch:order-free the largest
		if n > most {
			most, where = n, file
		}
	}
	t.Logf("a move is read in %d files, opened %d times (%d returns), at most %d times one of them (%s)", len(visits), stays, stays-len(visits), most, where)
	if stays > maxMoveStays || len(visits) > maxMoveFiles || most > maxMoveVisits {
		t.Errorf("at most %d times, %d files and %d visits may be", maxMoveStays, maxMoveFiles, maxMoveVisits)
	}
}
