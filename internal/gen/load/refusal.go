package load

import "go/token"

type refusal struct {
	code     Code
	path     string    // from the value to the refused type: ".Lines[].Done"
	pos      token.Pos // of the field of the refused type, if it is in the user's package
	why      string
	remedy   string
	reported bool       // a diagnostic has been added already
	owned    bool       // the type is in the entity's package, which the client's package cannot import
	more     []*refusal // the refusals of other fields of the same struct
}

func (r *refusal) all() []*refusal { return append([]*refusal{r}, r.more...) }

func join(list []*refusal) *refusal {
	if len(list) == 0 {
		return nil
	}
	first := *list[0]
	first.more = list[1:]
	return &first
}

// at prepends step, such as ".Lines" or "[]", to r's path, of at most maxPath bytes.
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
