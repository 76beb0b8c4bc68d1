package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/runtime/admin"
)

// A jsonEntity is the output of entity -json. Fields are added, never changed.
type jsonEntity struct {
	jsonPlace
	Active     bool            `json:"active"`
	State      json.RawMessage `json:"state,omitempty"`
	Unreadable string          `json:"unreadable,omitempty"`
	NoState    string          `json:"no_state,omitempty"` // why the state is not shown
	InShard    *jsonShard      `json:"in_shard,omitempty"`
	Lines      []jsonEvent     `json:"lines"`
	Turn       *jsonTurn       `json:"turn,omitempty"` // under way
	Mailbox    uint32          `json:"mailbox"`        // calls that wait for its turn
	Bytes      uint64          `json:"bytes"`          // of its encoded state, if it is idle
	Stored     bool            `json:"stored"`         // it is durable and passivated, and the store has the state
	Errors     []jsonFailure   `json:"errors"`         // the latest first
}

type jsonFailure struct {
	Method  string  `json:"method"`
	Outcome string  `json:"outcome"`
	Ago     float64 `json:"seconds_ago"`
}

// A jsonTurn is a turn that has not ended.
type jsonTurn struct {
	Method  string  `json:"method"`
	From    string  `json:"from"`
	Seconds float64 `json:"seconds"`
}

func (e *jsonEntity) describe(s admin.Entity) {
	e.Active, e.Unreadable, e.Mailbox, e.Bytes, e.Stored = s.Active, s.Why, s.Mailbox, s.Bytes, s.Stored
	for _, f := range s.Errors {
		e.Errors = append(e.Errors, jsonFailure{f.Method, f.Outcome, f.Ago.Seconds()})
	}
	switch {
	case s.Turn != nil:
		e.Turn = &jsonTurn{s.Turn.Method, s.Turn.From, s.Turn.For.Seconds()}
		e.NoState = "a turn is under way (try again)"
	case s.Why == "" && s.Bytes == 0 && !s.Active:
		e.NoState = "it is passivated and has none"
	case s.Why != "":
		e.NoState = "it cannot be read (shardctl state prints the encoded bytes)"
	}
}

// stateOf returns the state as JSON, or why it is not shown. It needs the right to command.
func stateOf(ctx context.Context, c *admin.Client, o *options) (state json.RawMessage, why string) {
	s, err := c.State(ctx, o.kind, o.id)
	switch {
	case err != nil:
		return nil, err.Error()
	case s.Turn != nil:
		return nil, "a turn is under way (try again)"
	case s.JSON == "":
		return nil, "it has no form in JSON (shardctl state prints the encoded bytes)"
	}
	return json.RawMessage(s.JSON), ""
}

func entity(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	p, err := c.Where(ctx, o.kind, o.id)
	if err != nil {
		return err
	}
	e := jsonEntity{jsonPlace: placeOf(o, p), Lines: []jsonEvent{}, Errors: []jsonFailure{}}
	if s, err := c.Inspect(ctx, o.kind, o.id); err != nil {
		e.NoState = err.Error()
	} else {
		e.describe(s)
	}
	if e.NoState == "" && o.showState {
		e.State, e.NoState = stateOf(ctx, c, o)
	}
	if all, err := c.Shards(ctx, o.kind); err == nil {
		rows, _ := shardRows(all)
		if i := slices.IndexFunc(rows, func(r jsonShard) bool { return r.Shard == p.Shard }); i >= 0 {
			e.InShard = &rows[i]
		}
	}
	lines, err := c.Events().Next(ctx)
	for _, l := range lines {
		if concerns(l.Attrs, o.kind, o.id) {
			e.Lines = append(e.Lines, jsonEvent{l.Time.UTC(), l.Level, l.Node.String(), stringsOf(l.Also), l.Text, l.Attrs})
		}
	}
	if o.json {
		return orErr(printJSON(w, e), err)
	}
	return orErr(printEntityStory(w, e), err)
}

// concerns reports whether a log line's attributes name the entity.
func concerns(attrs, kind, id string) bool {
	return strings.Contains(attrs, kind+"/"+id) ||
		strings.Contains(attrs, "kind="+kind) && (strings.Contains(attrs+" ", "entity="+id+" ") || strings.Contains(attrs, fmt.Sprintf("entity=%q", id)))
}

func printEntityStory(w io.Writer, e jsonEntity) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s is in shard %d, at %s\nwhy: %s\n", e.Type, e.ID, e.Shard, cmp.Or(e.Node, "no home"), cmp.Or(e.Why, "the coordinator has no reason for it"))
	switch {
	case e.Turn != nil:
		fmt.Fprintf(&b, "it has run %s for %v, called by %s; calls that wait for it: %d\n", e.Turn.Method, short(e.Turn.Seconds), e.Turn.From, e.Mailbox)
	case e.Active:
		b.WriteString("it is active and idle\n")
	case e.Stored:
		b.WriteString("it is passivated, in the store\n")
	default:
		b.WriteString("it is not active\n")
	}
	switch {
	case e.Unreadable != "":
		fmt.Fprintf(&b, "its state cannot be read: %s\n", e.Unreadable)
	case e.NoState != "":
		fmt.Fprintf(&b, "no state: %s\n", e.NoState)
	case e.State == nil:
		fmt.Fprintf(&b, "its state has %d bytes (-state shows it)\n", e.Bytes)
	default:
		fmt.Fprintf(&b, "state: %s\n", e.State)
	}
	if s := e.InShard; s != nil {
		fmt.Fprintf(&b, "its shard is %s, with %d entities, %d of them active; calls that wait for it: %d\n", s.State, s.Entities, s.Active, s.Waiting)
	}
	for _, f := range e.Errors {
		fmt.Fprintf(&b, "%s failed %v ago; %s\n", f.Method, short(f.Ago), f.Outcome)
	}
	for _, l := range e.Lines {
		node, _, _ := strings.Cut(l.Node, "#")
		fmt.Fprintf(&b, "%s %s: %s %s\n", l.Time.Local().Format("2006-01-02 15:04:05.000"), node, l.Text, l.Attrs)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func state(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	switch {
	case o.id == "":
		list, err := c.Unreadable(ctx, o.kind)
		return orErr(printEntities(w, o, list), err)
	case o.from != "":
		b, err := os.ReadFile(o.from)
		if err != nil {
			return err
		}
		return set(ctx, c, o, w, append([]byte{}, b...), "state replaced")
	case o.drop:
		return set(ctx, c, o, w, nil, "state dropped")
	}
	e, err := c.State(ctx, o.kind, o.id)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := os.WriteFile(o.out, e.State, 0o600); err != nil {
			return err
		}
		e.State = nil
	}
	return printEntity(w, o, e)
}

func set(ctx context.Context, c *admin.Client, o *options, w io.Writer, state []byte, done string) error {
	e, err := c.SetState(ctx, o.kind, o.id, state)
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(w, entityOf(e))
	}
	_, err = fmt.Fprintf(w, "%s/%s at %s: %s\n", e.Kind, e.ID, e.Node.Name, done)
	return err
}

type entityJSON struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Node   string `json:"node"`
	Active bool   `json:"active"`
	State  []byte `json:"state,omitempty"`
	Why    string `json:"unreadable,omitempty"`
}

func entityOf(e admin.Entity) entityJSON {
	return entityJSON{e.Kind, e.ID, e.Node.Name, e.Active, e.State, e.Why}
}

func printEntities(w io.Writer, o *options, list []admin.Entity) error {
	if o.json {
		all := make([]entityJSON, 0, len(list))
		for _, e := range list {
			all = append(all, entityOf(e))
		}
		return printJSON(w, all)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "no call has found a state of %s that cannot be read\n", o.kind)
		return err
	}
	for _, e := range list {
		if _, err := fmt.Fprintf(w, "%s/%s at %s: %s\n", e.Kind, e.ID, e.Node.Name, e.Why); err != nil {
			return err
		}
	}
	return nil
}

func printEntity(w io.Writer, o *options, e admin.Entity) error {
	if o.json {
		return printJSON(w, entityOf(e))
	}
	what := "idle, and its state can be read"
	switch {
	case e.Turn != nil:
		what = "a turn is under way, and its state is not shown (try again)"
	case e.Active:
		what = "active"
	case e.Why != "":
		what = "its state cannot be read: " + e.Why
	case e.State == nil && o.out == "":
		what = "it has no state"
	}
	if _, err := fmt.Fprintf(w, "%s/%s at %s: %s\n", e.Kind, e.ID, e.Node.Name, what); err != nil {
		return err
	}
	_, err := io.WriteString(w, hex.Dump(e.State))
	return err
}
