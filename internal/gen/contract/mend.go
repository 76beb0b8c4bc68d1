package contract

import (
	"fmt"
	"slices"
	"strings"
)

// Mend makes a usable contract from a contract that was merged or edited by hand. It removes
// conflict marks and keeps the lines of both sides. If two fields have the same number, one of them
// gets a new number. The field that keeps the number is the one that has it in released, the
// contract that running programs know. If that is neither field, or released is nil, the field of
// the earlier line keeps the number. Mend returns descriptions of the new numbers and of the
// dropped lines.
func Mend(content []byte, released *Contract) (*Contract, []string, error) {
	var kept []string
	for line := range strings.SplitSeq(string(UnixLines(content)), "\n") {
		if !strings.HasPrefix(line, "<<<<<<<") && !strings.HasPrefix(line, ">>>>>>>") &&
			!strings.HasPrefix(line, "=======") && !strings.HasPrefix(line, "|||||||") &&
			!(line != "" && slices.Contains(kept, line)) {
			kept = append(kept, line)
		}
	}
	c, problems := read([]byte(strings.Join(kept, "\n")))
	if c == nil {
		return nil, nil, fmt.Errorf("mend: %s (%s)", problems[0].Message, problems[0].Remedy)
	}
	var notes []string
	for _, p := range problems {
		notes = append(notes, "dropped "+p.Message)
	}
	c.Errors = slices.CompactFunc(c.Errors, func(a, b *Error) bool { return a.Name == b.Name })
	known := make(map[string]int)
	if released != nil {
		for _, l := range released.lists() {
			for _, f := range *l.fields {
				known[l.of+"."+f.Name] = f.Number
			}
		}
	}
	for _, l := range c.lists() {
		notes = append(notes, mendList(l, known)...)
	}
	return c, notes, nil
}

// mendList gives new numbers to fields with a duplicate number, and drops fields with a duplicate
// name. known has the released numbers.
func mendList(l list, known map[string]int) (notes []string) {
	isKnown := func(f *Field) bool { return known[l.of+"."+f.Name] == f.Number }
	slices.SortStableFunc(*l.fields, func(a, b *Field) int {
		switch {
		case isKnown(a) == isKnown(b):
			return 0
		case isKnown(a):
			return -1
		}
		return 1
	})
	highest := 0
	for _, f := range *l.fields {
		highest = max(highest, f.Number)
	}
	var kept []*Field
	for _, f := range *l.fields {
		if slices.ContainsFunc(kept, func(o *Field) bool { return o.Name == f.Name && !o.Retired && !f.Retired }) {
			notes = append(notes, fmt.Sprintf("%s %s.%s: number %d dropped, because the name has another number", l.what, l.of, f.Name, f.Number))
			continue
		}
		if slices.ContainsFunc(kept, func(o *Field) bool { return o.Number == f.Number }) {
			highest++
			notes = append(notes, fmt.Sprintf("%s %s.%s: number %d is now %d", l.what, l.of, f.Name, f.Number, highest))
			f.Number = highest
		}
		kept = append(kept, f)
	}
	*l.fields = kept
	return notes
}

func twice(c *Contract) []Problem {
	var problems []Problem
	const remedy = "run shardgen contract mend: it gives a new number to the entry that no running program knows"
	for _, l := range c.lists() {
		for i, f := range *l.fields {
			for _, g := range (*l.fields)[:i] {
				switch {
				case f.Number == g.Number:
					problems = append(problems, Problem{CodeTwice, f.line, fmt.Sprintf("%s %d of %s: the number of both %s and %s", l.what, f.Number, l.of, g.Name, f.Name), remedy})
				case f.Name == g.Name && !f.Retired && !g.Retired:
					problems = append(problems, Problem{CodeTwice, f.line, fmt.Sprintf("%s %s of %s: has both numbers %d and %d", l.what, f.Name, l.of, g.Number, f.Number), remedy})
				}
			}
		}
	}
	for i, e := range c.Errors {
		if slices.ContainsFunc(c.Errors[:i], func(o *Error) bool { return o.Name == e.Name }) {
			problems = append(problems, Problem{CodeTwice, e.line, "error " + e.Name + ": two lines", remedy})
		}
	}
	return sorted(problems)
}
