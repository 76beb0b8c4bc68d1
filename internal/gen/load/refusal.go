package load

import "go/token"

// A refusal is the reason why a type cannot cross the wire.
type refusal struct {
	code   Code
	path   string    // from the value to the refused type: ".Lines[].Done"
	pos    token.Pos // of the field of the refused type, if it is in the user's package
	why    string
	remedy string
	told   bool // it has been reported
	owned  bool // it is declared beside the entity, which the client's package cannot import
}

// at puts a step before the path. The end of a long path is left out.
func (r *refusal) at(step string) *refusal {
	c := *r
	if c.path = step + r.path; len(c.path) > maxPath {
		c.path = c.path[:maxPath] + "…"
	}
	return &c
}

const maxPath = 80
