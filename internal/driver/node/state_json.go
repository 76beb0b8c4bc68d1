package node

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const maxStateJSON = 64 << 10

// maxStateDepth bounds the nesting in which secrets are looked for.
const maxStateDepth = 64

const secretJSON = `"(secret)"`

// StateJSON returns the entity's fields that are tagged state as a JSON object, encoded as by
// encoding/json, in the order of the struct. Fields tagged secret, also in nested structs, show
// only secretJSON. It returns "" if the fields have no JSON form, or if the object is larger than
// maxStateJSON.
func StateJSON(entity any) (text string) {
	defer func() {
		if recover() != nil { // a MarshalJSON of the user's panics
			text = ""
		}
	}()
	v := reflect.ValueOf(entity)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return ""
	}
	v = v.Elem()
	b := []byte{'{'}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if kind, _, _ := strings.Cut(f.Tag.Get("shard"), ","); kind != "state" || !f.IsExported() {
			continue
		}
		value, err := fieldJSON(f, v.Field(i), 0)
		if err != nil {
			return ""
		}
		if b = appendMember(b, f.Name, value); len(b) > maxStateJSON {
			return ""
		}
	}
	return string(append(b, '}'))
}

func appendMember(b []byte, name string, value []byte) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	return append(append(strconv.AppendQuote(b, name), ':'), value...)
}

func isSecret(f reflect.StructField) bool {
	return slices.Contains(strings.Split(f.Tag.Get("shard"), ","), "secret")
}

func fieldJSON(f reflect.StructField, v reflect.Value, depth int) ([]byte, error) {
	if isSecret(f) {
		return []byte(secretJSON), nil
	}
	return openJSON(v, depth+1)
}

var errDeep = errors.New("the state is nested too deep to show")

// openJSON encodes v as encoding/json does, but without secrets. A type that has its own JSON form
// and can hold secrets is hidden. In structs with secrets, the options of json tags are ignored.
func openJSON(v reflect.Value, depth int) ([]byte, error) {
	switch {
	case depth > maxStateDepth:
		return nil, errDeep
	case !v.IsValid():
		return []byte("null"), nil
	case v.Kind() == reflect.Interface:
		return openJSON(v.Elem(), depth+1)
	case !holdsSecrets(v.Type(), !hasOwnForm(v.Type()), nil):
		return json.Marshal(v.Interface())
	case v.Kind() == reflect.Pointer:
		return openJSON(v.Elem(), depth+1)
	case hasOwnForm(v.Type()):
		return []byte(secretJSON), nil
	}
	switch v.Kind() {
	case reflect.Struct:
		b, err := structJSON([]byte{'{'}, v, depth)
		return append(b, '}'), err
	case reflect.Slice, reflect.Array:
		return listJSON(v, depth)
	case reflect.Map:
		return mapJSON(v, depth)
	}
	return []byte(secretJSON), nil
}

func structJSON(b []byte, v reflect.Value, depth int) ([]byte, error) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct && !isSecret(f) && !hasOwnForm(f.Type):
			var err error
			if b, err = structJSON(b, v.Field(i), depth+1); err != nil {
				return nil, err
			}
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		value, err := fieldJSON(f, v.Field(i), depth)
		if err != nil {
			return nil, err
		}
		b = appendMember(b, name, value)
	}
	return b, nil
}

func listJSON(v reflect.Value, depth int) ([]byte, error) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return []byte("null"), nil
	}
	items := make([][]byte, v.Len())
	for i := range items {
		var err error
		if items[i], err = openJSON(v.Index(i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']'), nil
}

// mapJSON returns a map with the keys and their order as in encoding/json.
func mapJSON(v reflect.Value, depth int) ([]byte, error) {
	if v.IsNil() {
		return []byte("null"), nil
	}
	if holdsSecrets(v.Type().Key(), true, nil) {
		return []byte(secretJSON), nil
	}
	raw := reflect.MakeMap(reflect.MapOf(v.Type().Key(), reflect.TypeFor[json.RawMessage]()))
	for _, key := range v.MapKeys() { //arch:order-free encoding/json orders them
		value, err := openJSON(v.MapIndex(key), depth+1)
		if err != nil {
			return nil, err
		}
		raw.SetMapIndex(key, reflect.ValueOf(json.RawMessage(value)))
	}
	return json.Marshal(raw.Interface())
}

func hasOwnForm(t reflect.Type) bool {
	for _, form := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(form) || reflect.PointerTo(t).Implements(form) {
			return true
		}
	}
	return false
}

// holdsSecrets reports whether values of type t can contain a secret field. If hidden is set, an
// interface counts as secret, because its type does not show what it holds.
func holdsSecrets(t reflect.Type, hidden bool, within []reflect.Type) bool {
	if slices.Contains(within, t) {
		return false // a caller of this call decides about t
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsSecrets(t.Elem(), hidden, within)
	case reflect.Map:
		return holdsSecrets(t.Key(), hidden, within) || holdsSecrets(t.Elem(), hidden, within)
	case reflect.Interface:
		return hidden
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); isSecret(f) || holdsSecrets(f.Type, hidden, within) {
				return true
			}
		}
	}
	return false
}
