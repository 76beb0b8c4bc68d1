package codegen

import (
	"errors"
	"fmt"
	"testing"
)

type shortError struct{ N int }

func (s shortError) Error() string { return fmt.Sprint("short of ", s.N) }

type lateError struct{ N int }

func (l *lateError) Error() string { return fmt.Sprint("late by ", l.N) }

// likeA is an error that matches a by its Is method, and shortError by its As method.
type likeA struct{ a error }

func (likeA) Error() string          { return "like A" }
func (l likeA) Is(target error) bool { return target == l.a }
func (l likeA) As(target any) (ok bool) {
	s, ok := target.(*shortError)
	if ok {
		*s = shortError{9}
	}
	return ok
}

// TestDescribeError: the caller finds all declared errors of a tree, also several of one type.
func TestDescribeError(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	table := []Error{
		SentinelError("b", b), SentinelError("a", a),
		ValueError("short",
			func(b []byte, v shortError) ([]byte, error) { return AppendInt(b, 1, v.N), nil },
			func(b []byte) (v shortError, err error) {
				for d := NewDecoder(b); d.Next(); err = d.Err("short") {
					ReadInt(&d, &v.N)
				}
				return v, err
			}),
		PointerError("late",
			func(b []byte, v lateError) ([]byte, error) { return AppendInt(b, 1, v.N), nil },
			func(b []byte) (v lateError, err error) {
				for d := NewDecoder(b); d.Next(); err = d.Err("late") {
					ReadInt(&d, &v.N)
				}
				return v, err
			}),
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("c"), "[]"},
		{errors.Join(a, b), "[a b]"},
		{errors.Join(a, fmt.Errorf("again: %w", a)), "[a]"},
		{errors.Join(shortError{1}, shortError{2}, shortError{1}), "[short of 1 short of 2]"},
		{errors.Join(&lateError{1}, fmt.Errorf("and %w: %w", b, &lateError{2})), "[late by 1 b late by 2]"},
		{fmt.Errorf("%w, %w", &shortError{1}, &shortError{2}), "[short of 1 short of 2]"},
		{errors.Join(nil, likeA{a}), "[a short of 9]"},
	} {
		text, causes := DescribeError(table, c.err)
		if got := fmt.Sprint(Causes(table, causes)); got != c.want {
			t.Errorf("%q: got %s, want %s", text, got, c.want)
		}
	}
}
