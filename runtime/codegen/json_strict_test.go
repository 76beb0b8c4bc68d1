package codegen

import (
	"strings"
	"testing"
)

type strictInner struct {
	Number int
	More   []strictInner
	Counts map[string]int
}

// TestReadJSONIsStrict: misspelt or repeated names are refused at any depth, with an error of
// bounded length.
func TestReadJSONIsStrict(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for text, want := range map[string]string{
		`{"v":{"Number":1,"More":[{"number":2}],"Counts":{"a":1,"A":2}}}`: "",
		`{"v":{"Number":1,"Nmber":2}}`:                                    `v: json: unknown field "Nmber"`,
		`{"v":{"More":[{"More":[{"x":1}]}]}}`:                             `v: json: unknown field "x"`,
		`{"v":{"Number":1,"Number":2}}`:                                   `the name "Number" occurs twice`,
		`{"v":{"Counts":{"a":1,"a":2}}}`:                                  `the name "a" occurs twice`,
		`{"v":{"More":[{},{"Number":1,"Number":1}]}}`:                     `the name "Number" occurs twice`,
		`{"v":{"` + long + `":1}}`:                                        "v: json: unknown field",
		`{"v":{"` + long + `":1,"` + long + `":1}}`:                       "occurs twice",
		`{"v":` + strings.Repeat("9", 2000) + `}`:                         "v: json: cannot unmarshal number",
		`{"` + long + `":1}`:                                              `unknown name "xx`,
		`[1]`:                                                             "want an object of the arguments by their names",
		`"` + long + `"`:                                                  "want an object of the arguments by their names",
	} {
		var v strictInner
		err := ReadJSON([]byte(text), JSONField{"v", &v})
		switch {
		case want == "" && err != nil:
			t.Errorf("%.80s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.80s: got %v, want an error with %q", text, err, want)
		case err != nil && len(err.Error()) > 400:
			t.Errorf("%.80s: the error has %d bytes", text, len(err.Error()))
		}
	}
}

// TestNamesInTwoCases: if a nested object has a name in upper and lower case, the last value
// counts, as in encoding/json. The names of arguments must match exactly.
func TestNamesInTwoCases(t *testing.T) {
	for text, want := range map[string]int{
		`{"v":{"Number":1,"number":2}}`: 2,
		`{"v":{"number":2,"Number":1}}`: 1,
	} {
		var v strictInner
		if err := ReadJSON([]byte(text), JSONField{"v", &v}); err != nil || v.Number != want {
			t.Errorf("%s: %d, %v, want %d", text, v.Number, err, want)
		}
	}
	var v strictInner
	if err := ReadJSON([]byte(`{"v":{},"V":{}}`), JSONField{"v", &v}); err == nil || !strings.Contains(err.Error(), `unknown name "V"`) {
		t.Errorf("an argument in two cases: %v, want it refused", err)
	}
}

// TestRawForm: whether a body without a content type is taken for JSON.
func TestRawForm(t *testing.T) {
	for body, want := range map[string]bool{
		"": true, "{}": true, `{"n":`: true, " {} ": true, "5": true, "-1.5": true, `"x"`: true, "[1]": true, "true": true, "null": true,
		"\x08\x05": false, "\x0a\x05{abcd": false, "\n\n{12345678}": false, "[1": false, "x": false,
	} {
		r := Raw{Body: []byte(body)}
		if got, err := r.IsJSON(); got != want || err != nil {
			t.Errorf("%q is taken for JSON: %v, %v, want %v", body, got, err, want)
		}
	}
}

// FuzzReadJSON checks that ReadJSON returns for any bytes, and that its errors are short.
func FuzzReadJSON(f *testing.F) {
	f.Add([]byte(`{"v":{"Number":1,"More":[{"number":2}],"Counts":{"a":1}},"card":{"Card":{"Number":"1"}}}`))
	f.Add([]byte(`{"v":{"Number":1,"Number":2}}`))
	f.Add([]byte(`{"card":{"Cash":3},"s":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var v strictInner
		var s string
		var p pay
		known := map[any]map[string]any{(*pay)(nil): {"Card": card{}, "Cash": cash(0)}}
		err := ReadJSON(text, JSONField{"v", &v}, JSONField{"s", &s}, JSONField{"card", JSONOneof(&p, known)})
		if err != nil && len(err.Error()) > 500 {
			t.Fatalf("the error has %d bytes", len(err.Error()))
		}
		r := Raw{Body: text}
		if _, err := r.IsJSON(); err != nil {
			t.Fatal(err)
		}
	})
}

type pay interface{ pay() }

type card struct {
	Number string
	Next   pay
}

type cash int

func (card) pay() {}
func (cash) pay() {}
