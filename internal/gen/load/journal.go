package load

import (
	"go/ast"
	"go/types"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/gen/model"
)

func journalEvent(t types.Type) types.Type {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || !isNamed(t, codegenPath, "Journal") || n.TypeArgs().Len() != 1 {
		return nil
	}
	return n.TypeArgs().At(0)
}

// applyMethod is the user's method that applies an event to the entity's state.
const applyMethod = "Apply"

// checkJournal reports a journal in an entity that is not durable. If option names keep or
// snapshot, it also reports that option in an entity without a journal.
func checkJournal(s *source, n *model.Entity, m *marked, option string) {
	switch {
	case n.Journal != nil && !n.Durable:
		s.add(m.directive.Slash, CodeOption, "write durable, or remove the journal", "%s: has a journal and is not durable: its events would be lost", n.Name)
	case n.Journal == nil && option != "" && !hasJournal(m): // a refused journal has its own diagnostic
		s.add(m.directive.Slash, CodeOption, "remove it, or give the entity a field of type shard.Journal", "%s=: %s has no journal", option, n.Name)
	}
}

func hasJournal(m *marked) bool {
	u, ok := m.object.Type().Underlying().(*types.Struct)
	for i := 0; ok && i < u.NumFields(); i++ {
		if journalEvent(u.Field(i).Type()) != nil {
			return true
		}
	}
	return false
}

// readAge parses ages such as 30d, 12h or 5m, from 1m to 36500d.
func readAge(text string) (time.Duration, bool) {
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute}
	if len(text) < 2 {
		return 0, false
	}
	number, unit := text[:len(text)-1], units[text[len(text)-1:]]
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 1 || unit == 0 || n > int64(maxAge/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

const maxAge = 100 * 365 * 24 * time.Hour

func readJournal(s *fieldReader, m *marked, f *types.Var, event types.Type, tag string) {
	n := s.n
	subject := n.Name + "." + f.Name()
	switch {
	case n.Journal != nil:
		s.add(f.Pos(), CodeTag, "keep one, and let its events be an interface with cases", "%s: has two journals, %s and %s", n.Name, n.Journal.Field, f.Name())
		return
	case strings.Contains(tag, "shard:"):
		s.add(f.Pos(), CodeTag, "remove the tag: a journal is stored without one", "%s: a journal has no tag", subject)
		return
	case n.Client != "":
		s.add(f.Pos(), CodeOption, "leave out client=", "%s: the client of an entity with a journal must be in the entity's package", subject)
		return
	}
	t, r := s.crossing.forms.inForm(event, "")
	if r != nil {
		s.refuse(f, subject, r)
		return
	}
	n.Journal = &model.Journal{Field: f.Name(), Event: model.Field{Name: "event", Number: 1, Type: t}}
	want := "func (e *" + n.Name + ") " + applyMethod + "(event " + s.crossing.short(event) + ")"
	apply := declared(types.NewPointer(m.object.Type()), applyMethod)
	switch {
	case apply == nil:
		s.add(f.Pos(), CodeHook, "declare "+want+", which changes the state as the event says", "%s: nothing applies its events", subject)
	case apply.Params().Len() != 1 || !types.Identical(apply.Params().At(0).Type(), event) || apply.Results().Len() != 0 || apply.Variadic():
		s.add(f.Pos(), CodeHook, "declare "+want, "%s: %s does not take its events", subject, applyMethod)
	}
}

// readKeep parses keep=: an age, a number, "followed" for events that a named follower has not
// read, or several of these.
func readKeep(r *report, j *model.Journal, a ast.DirectiveArg, value string) {
	for part := range strings.SplitSeq(value, ",") {
		age, isAge := readAge(part)
		count, err := strconv.Atoi(part)
		switch {
		case part == "followed":
			j.Followers = true
		case isAge:
			j.Age = age
		case err == nil && count > 0:
			j.Count = count
		default:
			r.add(a.Pos, CodeOption, "write an age like keep=90d, a number of events like keep=1000000, keep=followed for events that a named follower has not read, or several of these with commas", "keep=%s: not an age, a number of events or followed", value)
			return
		}
	}
}

// readSnapshot parses snapshot=, the number of events, 1 to 1,000,000, between writes of the state.
func readSnapshot(r *report, j *model.Journal, a ast.DirectiveArg, value string) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > 1_000_000 {
		r.add(a.Pos, CodeOption, "leave it out for 1000", "snapshot=%s: not a number of events from 1 to 1000000", value)
		return
	}
	j.Every = n
}
