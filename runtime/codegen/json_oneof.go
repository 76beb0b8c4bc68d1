package codegen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/util/bounded"
)

// JSONOneof makes p usable as the Value of a [JSONField] if the value at p may hold interfaces
// marked //shard:oneof. Such an interface value is written as an object with one member, named like
// the case, as in {"Card": {…}}; a nil interface is null. The keys of known are nil pointers to the
// interfaces; its values map the names of each interface's cases to zero values of their types.
func JSONOneof(p any, known map[any]map[string]any) any {
	o := &oneofs{make(map[reflect.Type]*interfaceJSON), make(map[reflect.Type]bool)}
	for of, cases := range known {
		i := &interfaceJSON{types: make(map[string]reflect.Type)}
		for name, zero := range cases {
			i.types[name] = reflect.TypeOf(zero)
			i.names = append(i.names, name)
		}
		slices.Sort(i.names)
		o.known[reflect.TypeOf(of).Elem()] = i
	}
	return oneofAt{reflect.ValueOf(p).Elem(), o}
}

type oneofAt struct {
	v     reflect.Value
	known *oneofs
}

func (a oneofAt) read(raw []byte) error  { return a.known.read(raw, a.v) }
func (a oneofAt) write() ([]byte, error) { return a.known.write(a.v) }
func isNull(raw []byte) bool             { return string(bytes.TrimSpace(raw)) == "null" }

type interfaceJSON struct {
	names []string // sorted
	types map[string]reflect.Type
}

type oneofs struct {
	known map[reflect.Type]*interfaceJSON
	memo  map[reflect.Type]bool // whether types reach known interfaces
}

func (o *oneofs) holds(t reflect.Type) bool {
	h, ok := o.memo[t]
	if !ok {
		h = o.reaches(t, make(map[reflect.Type]bool))
		o.memo[t] = h
	}
	return h
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()
	protoMessage  = reflect.TypeFor[proto.Message]()
)

func (o *oneofs) reaches(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch {
	case o.known[t] != nil:
		return true
	case seen[t], t.Kind() == reflect.Interface:
		return false
	case t.Implements(jsonMarshaler), t.Implements(textMarshaler), t.Implements(protoMessage):
		return false // the type has its own JSON form
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return o.reaches(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if o.reaches(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

func (o *oneofs) write(v reflect.Value) ([]byte, error) {
	t := v.Type()
	if one := o.known[t]; one != nil {
		return o.writeCase(one, v)
	}
	if m, ok := v.Interface().(proto.Message); ok && !v.IsNil() {
		return protojson.Marshal(m)
	}
	if !o.holds(t) {
		return json.Marshal(v.Interface())
	}
	switch t.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return o.write(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Array || !v.IsNil() {
			list := make([]json.RawMessage, v.Len())
			for i := range list {
				var err error
				if list[i], err = o.write(v.Index(i)); err != nil {
					return nil, fmt.Errorf("[%d]: %w", i, err)
				}
			}
			return json.Marshal(list)
		}
	case reflect.Map:
		if !v.IsNil() {
			return o.writeMap(v)
		}
	case reflect.Struct:
		return o.writeStruct(v)
	}
	return []byte("null"), nil
}

func (o *oneofs) writeCase(one *interfaceJSON, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return []byte("null"), nil
	}
	for _, name := range one.names {
		if v.Elem().Type() != one.types[name] {
			continue
		}
		value, err := o.write(v.Elem())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return json.Marshal(map[string]json.RawMessage{name: value})
	}
	return nil, NoCase(v.Type().String(), v.Interface())
}

func entries(m reflect.Type) reflect.Type {
	return reflect.MapOf(m.Key(), reflect.TypeFor[json.RawMessage]())
}

func (o *oneofs) writeMap(v reflect.Value) ([]byte, error) {
	m := reflect.MakeMap(entries(v.Type()))
	for i := v.MapRange(); i.Next(); {
		value, err := o.write(i.Value())
		if err != nil {
			return nil, fmt.Errorf("[%v]: %w", i.Key(), err)
		}
		m.SetMapIndex(i.Key(), reflect.ValueOf(json.RawMessage(value)))
	}
	return json.Marshal(m.Interface())
}

type member struct {
	name  string
	index []int
	omit  bool // left out if empty
}

// members returns in own the fields of t that may hold o's interfaces. rest is a struct type of the
// other fields, and at has their indices in t.
func (o *oneofs) members(t reflect.Type) (own []member, rest reflect.Type, at [][]int) {
	var others []reflect.StructField
	var named [][]int // embedded structs with their own name
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		embedded := f.Anonymous && inner.Kind() == reflect.Struct
		switch {
		case within(f.Index, named):
		case embedded && tag == "": // its fields come next
		case !f.IsExported():
		case !o.holds(f.Type):
			others = append(others, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
			at = append(at, f.Index)
		case tag != "-" || options != "":
			own = append(own, member{name: tag, index: f.Index, omit: strings.Contains(options, "omit")})
			if tag == "" {
				own[len(own)-1].name = f.Name
			}
		}
		if embedded && tag != "" {
			named = append(named, f.Index)
		}
	}
	return own, reflect.StructOf(others), at
}

func within(index []int, list [][]int) bool {
	for _, outer := range list {
		if len(index) > len(outer) && fmt.Sprint(index[:len(outer)]) == fmt.Sprint(outer) {
			return true
		}
	}
	return false
}

func (o *oneofs) writeStruct(v reflect.Value) ([]byte, error) {
	own, rest, at := o.members(v.Type())
	r := reflect.New(rest).Elem()
	for i, index := range at {
		if f, err := v.FieldByIndexErr(index); err == nil { // else a nil pointer precedes the field
			r.Field(i).Set(f)
		}
	}
	b, err := json.Marshal(r.Interface())
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1]
	for _, m := range own {
		f, err := v.FieldByIndexErr(m.index)
		if err != nil || m.omit && (f.IsZero() || (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0) {
			continue
		}
		value, err := o.write(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

func (o *oneofs) read(raw []byte, v reflect.Value) error {
	t := v.Type()
	if one := o.known[t]; one != nil {
		return o.readCase(one, raw, v)
	}
	if t.Implements(protoMessage) && t.Kind() == reflect.Pointer && !isNull(raw) {
		v.Set(reflect.New(t.Elem()))
		return protojson.Unmarshal(raw, v.Interface().(proto.Message))
	}
	switch {
	case !o.holds(t):
		return strictJSON(raw, v.Addr().Interface())
	case isNull(raw):
		v.SetZero()
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return o.read(raw, v.Elem())
	case reflect.Map:
		return o.readMap(raw, v)
	case reflect.Struct:
		return o.readStruct(raw, v)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	if t.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(t, len(list), len(list)))
	} else if len(list) > v.Len() {
		list = list[:v.Len()] // as encoding/json does
	}
	for i, e := range list {
		if err := o.read(e, v.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func (o *oneofs) readCase(one *interfaceJSON, raw []byte, v reflect.Value) error {
	v.SetZero()
	if isNull(raw) {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || len(object) != 1 {
		return fmt.Errorf("want null or an object with one member (there are: %s)", strings.Join(one.names, ", "))
	}
	for given, content := range object {
		i := slices.Index(one.names, given)
		if i < 0 { // as encoding/json finds fields
			i = slices.IndexFunc(one.names, func(n string) bool { return strings.EqualFold(n, given) })
		}
		if i < 0 {
			return fmt.Errorf("unknown case %q (there are: %s)", bounded.Text(given), strings.Join(one.names, ", "))
		}
		name := one.names[i]
		value := reflect.New(one.types[name]).Elem()
		if err := o.read(content, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if value.Kind() == reflect.Pointer && value.IsNil() {
			return fmt.Errorf("%s: the case is null (set the interface itself to null, or give the case a value)", name)
		}
		v.Set(value)
	}
	return nil
}

func (o *oneofs) readMap(raw []byte, v reflect.Value) error {
	m := reflect.New(entries(v.Type()))
	if err := json.Unmarshal(raw, m.Interface()); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := m.Elem().MapRange(); i.Next(); {
		e := reflect.New(v.Type().Elem()).Elem()
		if err := o.read(i.Value().Bytes(), e); err != nil {
			return fmt.Errorf("[%v]: %w", i.Key(), err)
		}
		v.SetMapIndex(i.Key(), e)
	}
	return nil
}

func (o *oneofs) readStruct(raw []byte, v reflect.Value) error {
	own, rest, at := o.members(v.Type())
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	mine := make([]json.RawMessage, len(own))
	for name, content := range object {
		i := slices.IndexFunc(own, func(m member) bool { return strings.EqualFold(name, m.name) })
		if i < 0 {
			continue
		}
		if mine[i] != nil {
			return fmt.Errorf("the name %q occurs twice (give each name once)", own[i].name)
		}
		mine[i] = content
		delete(object, name)
	}
	others, err := json.Marshal(object)
	if err != nil {
		return err
	}
	r := reflect.New(rest)
	if err := strictJSON(others, r.Interface()); err != nil {
		return err
	}
	for i, index := range at {
		if f := r.Elem().Field(i); !f.IsZero() {
			settable(v, index).Set(f)
		}
	}
	for i, m := range own {
		if mine[i] == nil {
			continue
		}
		if err := o.read(mine[i], settable(v, m.index)); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// settable returns v's field at index, making nil embedded pointers on the way.
func settable(v reflect.Value, index []int) reflect.Value {
	for i, x := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v
}
