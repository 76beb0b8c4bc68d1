package codegen

import (
	"fmt"
	"strconv"
)

// FormatID returns the wire form of an id of a signed integer type.
func FormatID[T signed](id T) string { return strconv.FormatInt(int64(id), 10) }

// FormatUintID returns the wire form of an id of an unsigned integer type.
func FormatUintID[T unsigned](id T) string { return strconv.FormatUint(uint64(id), 10) }

// FormatTextID returns the wire form of an id whose type has MarshalText.
func FormatTextID[T any, P textPointer[T]](id T) (string, error) {
	text, err := P(&id).MarshalText()
	if err != nil {
		return "", fmt.Errorf("format id: %w", err)
	}
	return string(text), nil
}

// ParseStringID returns s as an id of a string type.
func ParseStringID[T ~string](s string) (T, error) { return T(s), nil }

// ParseID parses the result of [FormatID]. It refuses all other forms of a number, such as "+7" and
// "007", so that each entity has only one id.
func ParseID[T signed](s string) (T, error) {
	x, err := strconv.ParseInt(s, 10, 64)
	id := T(x)
	if err != nil || FormatID(id) != s {
		return 0, fmt.Errorf("parse id: %q: not a decimal %T", s, id)
	}
	return id, nil
}

// ParseUintID parses the result of [FormatUintID], as strictly as [ParseID].
func ParseUintID[T unsigned](s string) (T, error) {
	x, err := strconv.ParseUint(s, 10, 64)
	id := T(x)
	if err != nil || FormatUintID(id) != s {
		return 0, fmt.Errorf("parse id: %q: not a decimal %T", s, id)
	}
	return id, nil
}

// ParseTextID parses the result of [FormatTextID]. It refuses a text that is not what the id's own
// MarshalText writes.
func ParseTextID[T any, P textPointer[T]](s string) (T, error) {
	var id T
	if err := P(&id).UnmarshalText([]byte(s)); err != nil {
		return id, fmt.Errorf("parse id: %q: %w", s, err)
	}
	if text, err := FormatTextID[T, P](id); err != nil || text != s {
		return id, fmt.Errorf("parse id: %q: want the text that its MarshalText writes, %q", s, text)
	}
	return id, nil
}
