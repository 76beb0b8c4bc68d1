package operator

import (
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Severity is how bad a finding is. From Passing on, each severity implies the lower ones down to
// Passing: a process that is Dead is also not ready, not healthy and not settled.
type Severity int

// The severities. Numbers are sent to other releases, so they never change.
const (
	Fine    Severity = iota // the check has found nothing
	Skipped                 // the check could not be made
	Note                    // nothing is wrong, such as a pause of rebalancing
	Passing                 // passes by itself; until then the cluster has not settled
	Fault                   // lasts until its cause ends or somebody acts: the cluster is not healthy
	Unready                 // the process cannot serve
	Dead                    // only a new process helps
)

var severities = [...]string{"fine", "skipped", "note", "passing", "fault", "unready", "dead"}

// String returns the name of the severity.
func (s Severity) String() string { return severities[s] }

// A Finding is one result of a judgement of a cluster's health.
type Finding struct {
	Check    string // what was checked, in one word; one of the names of package verdict
	Subject  string // what the finding is about, such as a member, a type or an entity
	Node     string // name of the process that the finding is about; "" means the cluster
	Severity Severity
	Since    time.Time // zero means that it is not known
	Text     string    // one sentence, without a full stop
	Do       string    // the remedy; "" means that there is none, or that Text names it
}

// Key returns the parts of a finding that stay the same while it lasts.
func (f Finding) Key() string { return strings.Join([]string{f.Check, f.Node, f.Subject}, "\x00") }

// String returns the name of the process and the text of the finding.
func (f Finding) String() string {
	if f.Node == "" {
		return f.Text
	}
	return f.Node + ": " + f.Text
}

// Sentence returns the finding's String, followed by its remedy.
func (f Finding) Sentence() string {
	if f.Do == "" {
		return f.String()
	}
	return f.String() + " (" + f.Do + ")"
}

func findingsToWire(all []Finding) (w []*wire.AdminFinding) {
	for _, f := range all {
		w = append(w, &wire.AdminFinding{
			Check: f.Check, Subject: f.Subject, Node: f.Node, Severity: uint32(f.Severity), Since: toNanos(f.Since), Text: f.Text, Do: f.Do,
		})
	}
	return w
}

func findingsFromWire(w []*wire.AdminFinding) (all []Finding) {
	for _, f := range w {
		all = append(all, Finding{
			Check: f.GetCheck(), Subject: f.GetSubject(), Node: f.GetNode(), Severity: Severity(min(f.GetSeverity(), uint32(Dead))),
			Since: fromNanos(f.GetSince()), Text: f.GetText(), Do: f.GetDo(),
		})
	}
	return all
}
