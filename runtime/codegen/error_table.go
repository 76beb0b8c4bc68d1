package codegen

import (
	"fmt"
	"reflect"
)

// An Error is an error that a package declares with //shard:error. Remote callers, like local ones,
// find it in a method's error with errors.Is or errors.As. It comes from [SentinelError],
// [ValueError] or [PointerError].
type Error struct {
	Name string // on the wire; unique in a kind
	// find reports whether a node of an error's tree, apart from its children, is the error, and
	// returns its encoded value. pointer reports whether the node points to a type whose values are
	// errors too.
	find func(node error) (content []byte, pointer, ok bool)
	// revive makes an error from find's results.
	revive func(content []byte, pointer bool) (error, error)
}

// SentinelError returns the Error for an error variable, which errors.Is finds.
func SentinelError(name string, sentinel error) Error {
	return Error{
		Name: name,
		find: func(node error) ([]byte, bool, bool) {
			if is, ok := node.(interface{ Is(error) bool }); ok && sentinel != nil && is.Is(sentinel) {
				return nil, false, true
			}
			return nil, false, sentinel != nil && same(node, sentinel)
		},
		revive: func([]byte, bool) (error, error) { return sentinel, nil },
	}
}

// ValueError returns the Error for an error type whose values cross the wire. If a value cannot be
// encoded, only its text crosses the wire.
func ValueError[T error](name string, encode func(b []byte, v T) ([]byte, error), decode func(b []byte) (T, error)) Error {
	return Error{
		Name: name,
		find: func(node error) ([]byte, bool, bool) {
			if v, ok := nodeAs[T](node); ok {
				content, refused := encode(nil, v)
				return content, false, refused == nil
			}
			if p, ok := nodeAs[*T](node); ok && p != nil {
				content, refused := encode(nil, *p)
				return content, true, refused == nil
			}
			return nil, false, false
		},
		revive: func(content []byte, pointer bool) (error, error) {
			v, err := decode(content)
			if err != nil {
				return nil, err
			}
			if p, ok := any(&v).(error); ok && pointer {
				return p, nil
			}
			return v, nil
		},
	}
}

// same reports whether two errors are equal. Values of incomparable types never are.
func same(a, b error) bool {
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// nodeAs is errors.As for one node of the error tree. T need not be constrained to error: a pointer
// to an error type with value methods is an error too.
func nodeAs[T any](node error) (v T, ok bool) {
	if v, ok = any(node).(T); ok {
		return v, true
	}
	if _, isError := any(v).(error); !isError {
		return v, false
	}
	as, ok := node.(interface{ As(any) bool })
	return v, ok && as.As(&v)
}

func nodes(err error, yield func(error)) {
	if err == nil {
		return
	}
	yield(err)
	switch wraps := err.(type) {
	case interface{ Unwrap() error }:
		nodes(wraps.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, e := range wraps.Unwrap() {
			nodes(e, yield)
		}
	}
}

// PointerError returns the Error for a type whose pointers are errors. The value behind the pointer
// crosses the wire. If the value cannot be encoded, only the error's text crosses the wire.
func PointerError[T any, P interface {
	*T
	error
}](name string, encode func(b []byte, v T) ([]byte, error), decode func(b []byte) (T, error)) Error {
	return Error{
		Name: name,
		find: func(node error) ([]byte, bool, bool) {
			p, ok := nodeAs[P](node)
			if !ok || p == nil {
				return nil, false, false
			}
			content, refused := encode(nil, *p)
			return content, false, refused == nil
		},
		revive: func(content []byte, _ bool) (error, error) {
			v, err := decode(content)
			if err != nil {
				return nil, err
			}
			return P(&v), nil
		},
	}
}

// maxCauses bounds an error's encoded causes, in bytes.
const maxCauses = 64 << 10

// Field numbers of a cause; the causes are a repeated message in field 1.
const (
	causeName    = 1
	causeContent = 2
	causePointer = 3
)

// DescribeError returns the wire form of a method's error: its text, and the errors in its tree
// that are in table, each value once and in the order of errors.Is. Causes beyond 64 KiB are left
// out. If a method of an error panics, the text says so.
func DescribeError(table []Error, err error) (text string, causes []byte) {
	defer func() {
		if r := recover(); r != nil {
			text, causes = fmt.Sprintf("%T, whose own methods panicked: %v", err, r), nil
		}
	}()
	text = err.Error()
	if len(table) == 0 {
		return text, nil
	}
	known := make(map[string]bool)
	nodes(err, func(node error) {
		for _, e := range table {
			content, pointer, ok := e.find(node)
			if !ok {
				continue
			}
			begin := len(causes)
			b, at := Open(causes, 1)
			b = AppendString(b, causeName, e.Name)
			b = AppendBytes(b, causeContent, content)
			b = AppendBool(b, causePointer, pointer)
			if b = Close(b, at); len(b) <= maxCauses && !known[string(b[begin:])] {
				known[string(b[begin:])] = true
				causes = b
			}
		}
	})
	return text, causes
}

// Causes decodes the causes of an error, which [DescribeError] encoded in b. It leaves out each
// cause that this program does not know or cannot decode. The text of the error still mentions such
// a cause.
func Causes(table []Error, b []byte) []error {
	var list []error
	d := NewDecoder(b)
	for d.Next() {
		if d.Field() != 1 {
			continue
		}
		var name string
		var content []byte
		var pointer bool
		outer := d.Enter()
		for d.Next() {
			switch d.Field() {
			case causeName:
				ReadString(&d, &name)
			case causeContent:
				ReadBytes(&d, &content)
			case causePointer:
				ReadBool(&d, &pointer)
			}
		}
		d.Leave(outer)
		if err := causeNamed(table, name, content, pointer); err != nil && d.Err("causes") == nil {
			list = append(list, err)
		}
	}
	return list
}

func causeNamed(table []Error, name string, content []byte, pointer bool) error {
	for _, e := range table {
		if e.Name != name {
			continue
		}
		err, refused := e.revive(content, pointer)
		if refused != nil {
			return nil
		}
		return err
	}
	return nil
}
