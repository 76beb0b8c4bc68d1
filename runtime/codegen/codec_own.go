package codegen

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"
)

// A type with its own encoding to text or bytes may fail to decode the form of its zero value: for
// a date 0000-00-00, which is no date. And nonzero values may have an empty form, such as the
// regular expression "". So:
//
//   - A zero value is written as an empty form if decoding its own form does not give the zero
//     value.
//   - An empty form is decoded by the type's own method if the method accepts it and the zero value
//     is written in its own form. Otherwise an empty form means the zero value.
//   - A value that would therefore arrive as the zero value is refused, unless the zero value has
//     the same form: then the type itself does not distinguish them.

// ownMethods are T's own methods for one encoding, such as gob.
type ownMethods[T any, P ~*T] struct {
	form  string // textForm, binaryForm or gobForm
	write func(P) ([]byte, error)
	read  func(P, []byte) error
}

const (
	textForm   = "text"
	binaryForm = "binary form"
	gobForm    = "gob form"
)

type ownZero struct {
	written    bool // zero is written in its own form
	empty      bool // zero's own form is empty
	readsEmpty bool // the type's own method decodes an empty form
}

type ownKey struct {
	of   reflect.Type
	form string
}

var ownZeros sync.Map

// zero returns T's ownZero, found by encoding and decoding the zero value once.
func (m ownMethods[T, P]) zero() ownZero {
	key := ownKey{reflect.TypeFor[T](), m.form}
	if known, ok := ownZeros.Load(key); ok {
		return known.(ownZero)
	}
	z := m.tryZero()
	ownZeros.Store(key, z)
	return z
}

func (m ownMethods[T, P]) tryZero() (z ownZero) {
	defer func() {
		if recover() != nil { // a method panicked for the zero value
			z = ownZero{}
		}
	}()
	var zero, again, none T
	data, err := m.write(&zero)
	if err != nil {
		return ownZero{}
	}
	z.empty = len(data) == 0
	data = bytes.Clone(data)
	if m.read(&again, data) == nil {
		same, err := m.write(&again)
		z.written = isZero(&again) || err == nil && bytes.Equal(same, data)
	}
	z.readsEmpty = z.written && m.read(&none, []byte{}) == nil
	return z
}

func isZero[T any](v *T) bool { return reflect.ValueOf(v).Elem().IsZero() }

// encode returns v in its own encoding. absent says to append no field.
func (m ownMethods[T, P]) encode(v *T) (data []byte, absent bool, err error) {
	if !isZero(v) {
		if data, err = m.write(v); err != nil || len(data) > 0 {
			return data, false, err
		}
		switch z := m.zero(); {
		case z.readsEmpty:
			return nil, false, nil
		case z.empty:
			return nil, true, nil
		}
		return nil, false, fmt.Errorf("the %s of this %T is empty, so it would arrive as the zero value", m.form, *v)
	}
	if z := m.zero(); !z.written || z.empty {
		return nil, true, nil
	}
	data, err = m.write(v)
	return data, false, err
}

// decode overwrites all of v with data, a result of encode.
func (m ownMethods[T, P]) decode(v *T, data []byte) error {
	*v = *new(T)
	if len(data) == 0 && !m.zero().readsEmpty {
		return nil
	}
	return m.read(v, data)
}

func appendOwn[T any, P ~*T](b []byte, num int, v *T, m ownMethods[T, P]) ([]byte, error) {
	data, absent, err := m.encode(v)
	if absent {
		return b, err
	}
	return PutBytes(b, num, data), err
}

func putOwn[T any, P ~*T](b []byte, num int, v *T, m ownMethods[T, P]) ([]byte, error) {
	data, _, err := m.encode(v)
	return PutBytes(b, num, data), err
}

func readOwn[T any, P ~*T](d *Decoder, v *T, m ownMethods[T, P]) {
	data := d.bytes()
	if d.err != nil {
		return
	}
	if err := m.decode(v, data); err != nil {
		d.fail(err)
	}
}

func cloneOwn[T any, P ~*T](v *T, m ownMethods[T, P]) (c T, err error) {
	data, absent, err := m.encode(v)
	if absent || err != nil {
		return c, err
	}
	return c, m.decode(&c, data)
}
