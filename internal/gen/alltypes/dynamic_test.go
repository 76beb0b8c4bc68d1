package alltypes

import (
	"encoding"
	"encoding/gob"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The functions here compare Go values with what protobuf itself makes of their
// bytes, by the descriptor of the emitted .proto alone.

// differsInField compares a value with a field of a message. It returns where they differ, or "".
func differsInField(m protoreflect.Message, number int, v reflect.Value) string {
	fd := m.Descriptor().Fields().ByNumber(protoreflect.FieldNumber(number))
	if fd == nil {
		return fmt.Sprintf("%s has no field %d", m.Descriptor().Name(), number)
	}
	why := ""
	t := v.Type()
	switch {
	case travelsWhole(t) && t.Kind() == reflect.Pointer: // a protobuf message
		if m.Has(fd) == v.IsNil() {
			why = fmt.Sprintf("presence %v, want %v", m.Has(fd), !v.IsNil())
		} else if !v.IsNil() {
			why = differsInElement(m.Get(fd), v)
		}
	case travelsWhole(t):
		why = differsInElement(m.Get(fd), v)
	case t.Kind() == reflect.Pointer:
		if m.Has(fd) == v.IsNil() {
			why = fmt.Sprintf("presence %v, want %v", m.Has(fd), !v.IsNil())
		} else if !v.IsNil() {
			why = differsInElement(m.Get(fd), v.Elem())
		}
	case t.Kind() == reflect.Map:
		why = differsInMap(fd, m.Get(fd), v)
	case fd.IsList():
		why = differsInList(m.Get(fd).List(), v)
	default:
		why = differsInElement(m.Get(fd), v)
	}
	if why == "" {
		return ""
	}
	return "." + string(fd.Name()) + why
}

// promoted are the structs whose encoding methods are those of an embedded field.
var promoted = map[reflect.Type]bool{
	reflect.TypeFor[Due](): true, reflect.TypeFor[Port](): true, reflect.TypeFor[Money](): true,
	reflect.TypeFor[Amount](): true, reflect.TypeFor[Label](): true,
}

// travelsWhole reports whether values of a type are encoded as one text or as bytes, not by their
// parts.
func travelsWhole(t reflect.Type) bool {
	if promoted[t] || t.Kind() == reflect.Pointer && promoted[t.Elem()] {
		return false
	}
	_, text := reflect.New(t).Interface().(encoding.TextMarshaler)
	_, binary := reflect.New(t).Interface().(encoding.BinaryMarshaler)
	bytes := (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem() == reflect.TypeFor[byte]()
	return text && t.Kind() != reflect.Pointer || binary && t.Kind() != reflect.Pointer || bytes ||
		t == reflect.TypeFor[time.Time]() || isMessage(t)
}

// differsInElement compares v with p, a single protobuf value. It returns where they differ, or "".
func differsInElement(p protoreflect.Value, v reflect.Value) string {
	want, got := any(nil), p.Interface()
	switch t := v.Type(); {
	case t == reflect.TypeFor[time.Time]():
		at := v.Interface().(time.Time)
		if at.IsZero() {
			return "" // it is absent, or an element whose seconds are year 1's
		}
		fields := p.Message().Descriptor().Fields()
		got = [2]int64{p.Message().Get(fields.ByNumber(1)).Int(), p.Message().Get(fields.ByNumber(2)).Int()}
		want = [2]int64{at.Unix(), int64(at.Nanosecond())}
	case isMessage(t):
		b, err := proto.Marshal(p.Message().Interface())
		if err != nil {
			return ": " + err.Error()
		}
		expected, err := proto.Marshal(v.Interface().(proto.Message))
		if err != nil {
			return ": " + err.Error()
		}
		got, want = string(b), string(expected)
	case travelsWhole(t):
		want, got = wholeOf(v), fmt.Sprint(got)
		if b, isBytes := p.Interface().([]byte); isBytes {
			got = string(b)
		}
	default:
		return differsByKind(p, v)
	}
	if got != want {
		return fmt.Sprintf(": got %v, want %v", got, want)
	}
	return ""
}

// wholeOf returns the text or bytes that a value is encoded as.
func wholeOf(v reflect.Value) string {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	var b []byte
	switch m := p.Interface().(type) {
	case encoding.BinaryMarshaler:
		b, _ = m.MarshalBinary()
	case gob.GobEncoder:
		b, _ = m.GobEncode()
		if i, ok := m.(*big.Int); ok {
			b, _ = i.MarshalText() // it has no MarshalBinary
		}
	case encoding.TextMarshaler:
		b, _ = m.MarshalText()
	default:
		b = p.Elem().Slice(0, v.Len()).Bytes()
	}
	return string(b)
}

func differsByKind(p protoreflect.Value, v reflect.Value) string {
	same := true
	switch v.Kind() {
	case reflect.Bool:
		same = p.Bool() == v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		same = p.Int() == v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		same = p.Uint() == v.Uint()
	case reflect.Float32, reflect.Float64:
		same = p.Float() == v.Float()
	case reflect.String:
		same = p.String() == v.String()
	case reflect.Struct:
		return differsInStruct(p.Message(), v)
	case reflect.Interface:
		return differsInCase(p.Message(), v)
	default: // what repeats, or may be absent, is a message around it
		return differsInField(p.Message(), 1, v)
	}
	if !same {
		return fmt.Sprintf(": got %v, want %v", p.Interface(), v)
	}
	return ""
}

// differsInCase compares the value in an interface with the field that is set in its message.
func differsInCase(m protoreflect.Message, v reflect.Value) string {
	fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("value"))
	switch {
	case v.IsNil() && fd == nil:
		return ""
	case v.IsNil() || fd == nil:
		return fmt.Sprintf(": field %v is set, want that of %v", fd, v)
	}
	held := v.Elem()
	if held.Kind() == reflect.Pointer && !isMessage(held.Type()) {
		held = held.Elem()
	}
	if why := differsInElement(m.Get(fd), held); why != "" {
		return "." + string(fd.Name()) + why
	}
	return ""
}

// differsInStruct compares the fields of a struct by number. In package alltypes, a field's number is
// its place in the struct.
func differsInStruct(m protoreflect.Message, v reflect.Value) string {
	number := 0
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("shard") == "-" {
			continue
		}
		number++
		f := v.Field(i)
		if !f.CanInterface() { // of our own package, so generated code reads it too
			c := reflect.New(v.Type()).Elem()
			c.Set(v)
			f = reflect.NewAt(f.Type(), c.Field(i).Addr().UnsafePointer()).Elem()
		}
		if v.Type().Field(i).Tag.Get("shard") == "text" {
			text, _ := f.Interface().(encoding.TextMarshaler).MarshalText()
			f = reflect.ValueOf(string(text))
		}
		if why := differsInField(m, number, f); why != "" {
			return why
		}
	}
	return ""
}

func differsInList(list protoreflect.List, v reflect.Value) string {
	if list.Len() != v.Len() {
		return fmt.Sprintf(": %d elements, want %d", list.Len(), v.Len())
	}
	for i := range v.Len() {
		e := v.Index(i)
		if e.Kind() == reflect.Pointer && e.IsNil() && isMessage(e.Type()) {
			e = reflect.New(e.Type().Elem()) // arrives as an empty message
		}
		if why := differsInElement(list.Get(i), e); why != "" {
			return fmt.Sprintf("[%d]%s", i, why)
		}
	}
	return ""
}

// differsInMap compares a map with a map field, or with a list of entries if protobuf has no map
// with such keys.
func differsInMap(fd protoreflect.FieldDescriptor, p protoreflect.Value, v reflect.Value) string {
	find := func(key reflect.Value) (protoreflect.Value, bool) {
		if fd.IsMap() {
			var found protoreflect.Value
			p.Map().Range(func(k protoreflect.MapKey, e protoreflect.Value) bool {
				if differsInElement(k.Value(), key) == "" {
					found = e
				}
				return !found.IsValid()
			})
			return found, found.IsValid()
		}
		for i := range p.List().Len() {
			entry := p.List().Get(i).Message()
			if differsInField(entry, 1, key) == "" {
				return entry.Get(entry.Descriptor().Fields().ByNumber(2)), true
			}
		}
		return protoreflect.Value{}, false
	}
	length := 0
	if fd.IsMap() {
		length = p.Map().Len()
	} else {
		length = p.List().Len()
	}
	if length != v.Len() {
		return fmt.Sprintf(": %d entries, want %d", length, v.Len())
	}
	for _, key := range v.MapKeys() {
		e, ok := find(key)
		if !ok {
			return fmt.Sprintf("[%v]: not there", key)
		}
		value := v.MapIndex(key)
		if value.Kind() == reflect.Pointer && value.IsNil() && isMessage(value.Type()) {
			value = reflect.New(value.Type().Elem())
		}
		if why := differsInElement(e, value); why != "" {
			return fmt.Sprintf("[%v]%s", key, why)
		}
	}
	return ""
}

func isMessage(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[proto.Message]()) && !(t.Kind() == reflect.Pointer && promoted[t.Elem()]) && !promoted[t]
}
