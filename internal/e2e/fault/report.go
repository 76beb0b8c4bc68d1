package fault

import "fmt"

// A report has the notes and misses of a run, beside its figures.
type report struct {
	notes  []string
	misses []string
}

// Note adds a line below the row.
func (r *report) Note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Miss adds a figure that is not as it should be.
func (r *report) Miss(format string, args ...any) {
	r.misses = append(r.misses, fmt.Sprintf(format, args...))
}
