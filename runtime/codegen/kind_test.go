package codegen

import (
	"strings"
	"testing"
)

type counted struct{}

func (*counted) One() {}
func (counted) Two()  {}
func (*counted) not() {}

func TestCheckMethods(t *testing.T) {
	(*counted).not(nil)
	for _, tt := range []struct {
		host Host
		want string
	}{
		{Host{}, ""},
		{Host{Struct: (*counted)(nil), Exported: 2}, ""},
		{Host{Struct: (*counted)(nil), Exported: 1}, "codegen.counted has 2 exported methods, but had 1"},
		{Host{Struct: (*counted)(nil), Exported: 3}, "run go generate"},
	} {
		err := tt.host.CheckMethods()
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d methods: got %v, want %q", tt.host.Exported, err, tt.want)
		}
	}
}
