package codegen

import (
	"errors"
	"fmt"
)

// An Error is one that a package declares with //shard:error: a remote caller finds it in
// a method's error, with errors.Is or errors.As, as a local one does. It comes from
// [SentinelError], [ValueError] or [PointerError].
type Error struct {
	Name string // on the wire, unique in a kind
	// find looks for the error in err's tree. pointer reports whether it found a pointer
	// to a type whose values are errors too.
	find func(err error) (content []byte, pointer, ok bool)
	// revive makes the error that find found.
	revive func(content []byte, pointer bool) (error, error)
}

// SentinelError is an error that is told by its identity.
func SentinelError(name string, sentinel error) Error {
	return Error{
		Name: name,
		find: func(err error) ([]byte, bool, bool) {
			return nil, false, sentinel != nil && errors.Is(err, sentinel)
		},
		revive: func([]byte, bool) (error, error) { return sentinel, nil },
	}
}

// ValueError is a type whose values are errors, and whose values cross the wire.
// One that does not encode crosses as text alone.
func ValueError[T error](name string, encode func(b []byte, v T) ([]byte, error), decode func(b []byte) (T, error)) Error {
	return Error{
		Name: name,
		find: func(err error) ([]byte, bool, bool) {
			var v T
			if errors.As(err, &v) {
				content, refused := encode(nil, v)
				return content, false, refused == nil
			}
			var p *T
			if !asPointer(err, &p) || p == nil {
				return nil, false, false
			}
			content, refused := encode(nil, *p)
			return content, true, refused == nil
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

// asPointer is errors.As for a pointer to a type whose values are errors, which
// is an error too, though the compiler cannot tell.
func asPointer[T error](err error, p **T) bool {
	if _, ok := any(*p).(error); !ok {
		return false // T is itself a pointer
	}
	var target any = p
	return errors.As(err, target)
}

// PointerError is a type to which pointers are errors, and whose values cross
// the wire. One that does not encode crosses as text alone.
func PointerError[T any, P interface {
	*T
	error
}](name string, encode func(b []byte, v T) ([]byte, error), decode func(b []byte) (T, error)) Error {
	return Error{
		Name: name,
		find: func(err error) ([]byte, bool, bool) {
			var p P
			if !errors.As(err, &p) || p == nil {
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

// maxCauses bounds the encoded causes of one error.
const maxCauses = 64 << 10

// Fields of a cause on the wire: causes are a repeated message, field 1.
const (
	causeName    = 1
	causeContent = 2
	causePointer = 3
)

// DescribeError returns the form on the wire of an error that a method returned: its
// text, and the errors of the table that are in its tree. More than 64 KiB of the latter
// are left out. A user's methods that panic here are told in the text.
func DescribeError(table []Error, err error) (text string, causes []byte) {
	defer func() {
		if r := recover(); r != nil {
			text, causes = fmt.Sprintf("%T, whose own methods panicked: %v", err, r), nil
		}
	}()
	text = err.Error()
	for _, e := range table {
		content, pointer, ok := e.find(err)
		if !ok {
			continue
		}
		b, at := Open(causes, 1)
		b = AppendString(b, causeName, e.Name)
		b = AppendBytes(b, causeContent, content)
		b = AppendBool(b, causePointer, pointer)
		if b = Close(b, at); len(b) <= maxCauses {
			causes = b
		}
	}
	return text, causes
}

// Causes returns the errors that [DescribeError] found. Those that this program
// does not know, or cannot decode, are left out: the text still tells of them.
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
