package bounded_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/util/bounded"
)

func TestText(t *testing.T) {
	a := strings.Repeat("a", bounded.Most)
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{a, a},
		{a + "b", a + "… (201 bytes)"},
		{a[1:] + "é", a[1:] + "… (201 bytes)"},
		{a + "é", a + "… (202 bytes)"},
		{a[:100] + strings.Repeat("\x80", 200), a[:100] + strings.Repeat("\x80", 96) + "… (300 bytes)"},
	} {
		if got := bounded.Text(c.text); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestError(t *testing.T) {
	if bounded.Error(nil) != nil {
		t.Error("nil is an error")
	}
	cause := errors.New("cause")
	if bounded.Error(cause) != cause {
		t.Error("a short error is changed")
	}
	err := bounded.Error(fmt.Errorf("%s: %w", strings.Repeat("x", 1000), cause))
	if !errors.Is(err, cause) || len(err.Error()) > bounded.Most+len("… (1007 bytes)") {
		t.Errorf("got %v", err)
	}
}

func TestRefit(t *testing.T) {
	m, most := map[int]int{}, 0
	same := func() bool { // a copy does not see what is put into m
		next := bounded.Refit(m, &most)
		m[-1] = 1
		_, ok := next[-1]
		delete(m, -1)
		m = next
		delete(m, -1)
		return ok
	}
	for i := range 1000 {
		m[i] = i
	}
	require.True(t, same())
	for i := range 700 {
		delete(m, i)
	}
	require.True(t, same(), "it has shrunk little")
	for i := 700; i < 990; i++ {
		delete(m, i)
	}
	require.False(t, same())
	require.Len(t, m, 10)
	require.Equal(t, 995, m[995])
	clear(m)
	require.True(t, same(), "it was small")
}
