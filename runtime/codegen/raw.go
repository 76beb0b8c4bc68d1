package codegen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/util/bounded"
)

// Content types of a [Raw] call.
const (
	ContentJSON     = "application/json"
	ContentProtobuf = "application/protobuf"
)

// A Raw is a call whose arguments are already encoded.
type Raw struct {
	Method string
	ID     string // as on the wire; none for a singleton; for a pool a number, or AnyInstance
	// ContentType is ContentJSON for a JSON object of the arguments by name, or ContentProtobuf for
	// the message that "shardgen contract proto" prints. If it is empty, the body counts as JSON if
	// it is empty, begins with "{", or is valid JSON. A few protobuf messages are valid JSON too,
	// so set ContentType for protobuf.
	ContentType string
	Body        []byte
	// CommandID is the idempotency key of a call to a durable type; "" means none.
	CommandID string
	// Delay makes the call a reminder of an entity of a durable type, whose results are empty. nil
	// calls at once.
	Delay *Delay
}

// IsJSON reports whether the body is JSON. It returns an error if the content type is unknown.
func (r *Raw) IsJSON() (bool, error) {
	kind, _, _ := strings.Cut(r.ContentType, ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "":
		return len(r.Body) == 0 || r.Body[0] == '{' || json.Valid(r.Body), nil
	case ContentJSON:
		return true, nil
	case ContentProtobuf, "application/x-protobuf", "application/octet-stream":
		return false, nil
	}
	return false, fmt.Errorf("content type %q (want %s or %s)", bounded.Text(r.ContentType), ContentJSON, ContentProtobuf)
}

// CallRaw makes a call whose arguments are already encoded, and returns the results in the same
// format.
func CallRaw(ctx context.Context, p Invoker, k Kind, r Raw) ([]byte, error) {
	id := r.ID
	if k.Singleton {
		id = SingletonID
	}
	var options []CallOption
	if r.CommandID != "" {
		options = append(options, func(o *CallOptions) { o.CommandID = &r.CommandID })
	}
	if r.Delay != nil {
		options = append(options, func(o *CallOptions) { o.Delay = r.Delay })
	}
	if pool, ok := p.(PoolInvoker); ok && k.Pool && id == AnyInstance {
		p = pool.Choose(PoolAny, "")
	}
	ref := NewRef(p, id, nil, options...)
	m, asJSON, err := r.form(k)
	if err != nil {
		return nil, ref.NotEncoded(r.Method, err)
	}
	if r.Delay == nil {
		if err := p.Check(ctx, ref, r.Method); err != nil {
			return nil, err
		}
	}
	args := NewArgs()
	switch {
	case !asJSON:
		args = append(args, r.Body...)
	case m.Args != nil:
		args, err = m.Args(args, r.Body)
	default:
		err = ReadJSON(r.Body)
	}
	if err != nil {
		return nil, ref.NotEncoded(r.Method, err)
	}
	if r.Delay != nil {
		if err := ref.Tell(ctx, r.Method, args); err != nil || !asJSON {
			return nil, err
		}
		return []byte("{}"), nil
	}
	if !asJSON {
		results, err := p.Do(ctx, ref, r.Method, args)
		return slices.Clone(results), err // the answer kept for repetitions may share them
	}
	results := ref.Ask(ctx, r.Method, args, nil)
	if results.err != nil {
		return nil, results.err
	}
	if m.Reply == nil {
		return []byte("{}"), nil
	}
	reply, err := m.Reply(results)
	if e, ok := err.(*EncodeError); ok {
		err = p.Failed(ref, r.Method, true, e)
	}
	return reply, err
}

// form reports whether the call is in JSON. If so, m converts arguments and results.
func (r *Raw) form(k Kind) (m JSONMethod, asJSON bool, err error) {
	asJSON, err = r.IsJSON()
	switch {
	case err != nil || !asJSON:
	case k.JSON == nil:
		err = ErrNoJSON
	case !slices.Contains(k.Methods, r.Method):
		err = fmt.Errorf("there is no method %s (there are: %s)", bounded.Text(r.Method), strings.Join(k.Methods, ", "))
	default:
		m = k.JSON(r.Method)
	}
	return m, asJSON, err
}

// ErrNoJSON means that a type does not accept calls in JSON.
var ErrNoJSON = errors.New("the type's code was generated without JSON (add json to its directive, as in //shard:entity json, and run go generate)")
