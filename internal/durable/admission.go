package durable

// A Verdict is the decision about a command.
type Verdict uint8

// The verdicts.
const (
	// Run: run it, then end it with Commit or Discard.
	Run Verdict = iota + 1
	// Replay: it was applied. Its answer may leave with its ticket.
	Replay
	// Running: it runs already, and is answered at the end of that run.
	Running
	// BelowFloor: its source has finished it. It never runs.
	BelowFloor
	// Mismatch: another command has its id. The caller has made another call than its first
	// run did.
	Mismatch
	// Forgotten: it was applied, and its answer is not kept any more. It never runs again.
	Forgotten
	// Overloaded: too much is kept of commands, tells, or of the log's tail. Later.
	Overloaded
	// Closed: the shard is not open here.
	Closed
)

// An Admission is the answer to a command.
type Admission struct {
	Verdict Verdict
	Answer  []byte // Replay: of its commit
	Ticket  Ticket // Replay: of its commit
}
