package codegen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/util/bounded"
)

// A JSONMethod converts the arguments of one method from JSON and its results to JSON, for callers
// without generated code. A JSONMethod uses reflection, which typed calls do not.
type JSONMethod struct {
	// Args reads the arguments from text, a JSON object with the arguments by name, and appends
	// their encoding to b. It is nil if the method has no arguments.
	Args func(b, text []byte) ([]byte, error)
	// Reply returns a JSON object with the results by name. It is nil if the method has no results.
	Reply func(results Decoder) ([]byte, error)
}

// A JSONField is a named argument or result. Value points to it.
type JSONField struct {
	Name  string
	Value any
}

// ReadJSON reads a JSON object of named values into fields. An absent value stays zero. An unknown
// name is an error, because it is probably misspelt. Errors are [*EncodeError], because the call
// has not been sent.
func ReadJSON(text []byte, fields ...JSONField) error {
	if err := readJSON(text, fields); err != nil {
		return &EncodeError{What: "arguments from JSON", Err: err}
	}
	return nil
}

func readJSON(text []byte, fields []JSONField) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("%w (want an object of the arguments by their names)", bounded.Error(err))
	}
	if err := checkNames(text); err != nil {
		return err
	}
	for _, f := range fields {
		raw, ok := object[f.Name]
		if !ok {
			continue
		}
		delete(object, f.Name)
		if err := readValue(raw, f.Value); err != nil {
			return fmt.Errorf("%s: %w", f.Name, bounded.Error(err))
		}
	}
	if len(object) == 0 {
		return nil
	}
	var unknown, known []string
	for name := range object {
		unknown = append(unknown, name)
	}
	for _, f := range fields {
		known = append(known, f.Name)
	}
	return fmt.Errorf("unknown name %q (there are: %s)", bounded.Text(slices.Min(unknown)), strings.Join(known, ", "))
}

// checkNames refuses an object with a repeated name, because readers differ in which value they
// take. text must be valid JSON.
func checkNames(text []byte) error {
	type level struct {
		names map[string]bool // nil for an array
		value bool            // a name was read, and its value comes
	}
	var open []level
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return nil // text ends
		}
		in := len(open) - 1
		name, isName := token.(string)
		isName = isName && in >= 0 && open[in].names != nil && !open[in].value
		switch delim, _ := token.(json.Delim); {
		case delim == ']' || delim == '}':
			open = open[:in]
			continue
		case isName:
			if open[in].names[name] {
				return fmt.Errorf("the name %q occurs twice (give each name once)", bounded.Text(name))
			}
			open[in].names[name], open[in].value = true, true
			continue
		}
		if in >= 0 {
			open[in].value = false
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{names: map[string]bool{}})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}

// strictJSON is json.Unmarshal, but refuses unknown names unless a type's UnmarshalJSON accepts
// them.
func strictJSON(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// readValue reads a value from JSON. A protobuf message is in protobuf's JSON form.
func readValue(raw []byte, to any) error {
	if o, ok := to.(oneofAt); ok {
		return o.read(raw)
	}
	if m, ok := messageAt(to); ok {
		if string(raw) == "null" {
			return nil
		}
		return protojson.Unmarshal(raw, m)
	}
	return strictJSON(raw, to)
}

// messageAt returns the message behind v, a pointer to a message pointer. It sets a nil message
// pointer.
func messageAt(v any) (proto.Message, bool) {
	p, ok := v.(interface{ message() proto.Message })
	if !ok {
		return nil, false
	}
	return p.message(), true
}

// JSONProto makes a pointer to a pointer to a protobuf message usable as the Value of a
// [JSONField].
func JSONProto[M any, P protoPointer[M]](p *P) any { return protoAt[M, P]{p} }

type protoAt[M any, P protoPointer[M]] struct{ p *P }

func (a protoAt[M, P]) isNil() bool { return *a.p == nil }

func (a protoAt[M, P]) message() proto.Message {
	if *a.p == nil {
		*a.p = new(M)
	}
	return *a.p
}

// WriteJSON writes the fields as a JSON object.
func WriteJSON(fields ...JSONField) ([]byte, error) {
	b := []byte{'{'}
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(f.Name)
		if err == nil {
			b = append(append(b, name...), ':')
			name, err = writeValue(f.Value)
		}
		if err != nil {
			return nil, &EncodeError{What: "results as JSON", Err: fmt.Errorf("%s: %w", f.Name, err)}
		}
		b = append(b, name...)
	}
	return append(b, '}'), nil
}

func writeValue(v any) ([]byte, error) {
	if o, ok := v.(oneofAt); ok {
		return o.write()
	}
	if p, ok := v.(interface{ isNil() bool }); ok && p.isNil() {
		return []byte("null"), nil
	}
	if m, ok := messageAt(v); ok {
		return protojson.Marshal(m)
	}
	return json.Marshal(v)
}
