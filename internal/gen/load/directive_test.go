package load

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"entity", "error", "ignore", "tell", "hash"}
	for name, want := range map[string]string{
		"entity": "entity", "entiy": "entity", "entitiy": "entity", "netity": "entity", "erorr": "error", "hsah": "hash", "tel": "tell",
		"all": "", "the": "", "": "", "something": "", "table": "",
	} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestParsePosition(t *testing.T) {
	for in, want := range map[string]struct {
		file         string
		line, column int
	}{
		"a/b.go:3:14": {"a/b.go", 3, 14}, "a:b.go:3:14": {"a:b.go", 3, 14}, "-": {"-", 0, 0}, "": {"", 0, 0}, "a.go:x:y": {"a.go:x:y", 0, 0},
	} {
		if got := parsePosition(in); got.Filename != want.file || got.Line != want.line || got.Column != want.column {
			t.Errorf("parsePosition(%q) = %#v, want %v", in, got, want)
		}
	}
}
