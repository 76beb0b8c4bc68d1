package load

import "go/token"

// A refusal is the reason why a type cannot cross the wire.
type refusal struct {
	code     Code
	path     string    // from the value to the refused type: ".Lines[].Done"
	pos      token.Pos // of the field of the refused type, if it is in the user's package
	why      string
	remedy   string
	reported bool       // a diagnostic has been added already
	owned    bool       // the type is declared beside the entity, whose package the client's cannot import
	more     []*refusal // the refusals of other fields of the same struct
}

// all returns r and the refusals of other fields that were joined with it.
func (r *refusal) all() []*refusal { return append([]*refusal{r}, r.more...) }

// join returns the refusals of a struct's fields as one; nil if there is none.
func join(list []*refusal) *refusal {
	if len(list) == 0 {
		return nil
	}
	first := *list[0]
	first.more = list[1:]
	return &first
}

// at returns r with step, such as ".Lines" or "[]", put before r's path. A path longer than maxPath
// bytes is shortened.
func (r *refusal) at(step string) *refusal {
	c := *r
	if c.path = step + r.path; len(c.path) > maxPath {
		c.path = c.path[:maxPath] + "…"
	}
	c.more = nil
	for _, other := range r.more {
		c.more = append(c.more, other.at(step))
	}
	return &c
}

const maxPath = 80
