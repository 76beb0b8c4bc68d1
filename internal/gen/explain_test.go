package gen

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestEveryCodeIsExplained checks that explain.txt explains each code that the source declares.
func TestEveryCodeIsExplained(t *testing.T) {
	var declared []string
	for _, path := range []string{"load/diagnostic.go", "contract/contract.go"} {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`= "(SG\d+)"`).FindAllStringSubmatch(string(source), -1) {
			declared = append(declared, m[1])
		}
	}
	slices.Sort(declared)
	if codes := Codes(); len(declared) < 30 || !slices.Equal(codes, declared) {
		t.Errorf("explained %v, want the declared %v", codes, declared)
	}
	for _, code := range declared {
		if e, ok := Explain(code); !ok || e.Title == "" || len(e.Text) < 40 {
			t.Errorf("%s: explained as %+v", code, e)
		}
	}
	if _, ok := Explain("SG999"); ok {
		t.Error("SG999 is explained")
	}
}
