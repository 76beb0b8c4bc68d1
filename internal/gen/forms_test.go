package gen

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFieldsBeforeText checks that another module's struct with only exported fields and no binary
// form is encoded by its fields, because its text may lose what they hold. A struct of the user's
// module is encoded as its text.
func TestFieldsBeforeText(t *testing.T) {
	const texts = `
func (d Date) MarshalText() ([]byte, error) { return nil, nil }
func (d *Date) UnmarshalText([]byte) error { return nil }
`
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := module(t, "example.com/forms", map[string]string{
		"go.mod": "module example.com/forms\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/shardgen/shardgen v0.0.0\n\texample.com/civil v0.0.0\n)\n\n" +
			"replace github.com/shardgen/shardgen => " + root + "\n\nreplace example.com/civil => ./civil\n",
		"civil/go.mod": "module example.com/civil\n\ngo 1.26.0\n",
		"civil/civil.go": "package civil\n\ntype Date struct{ Year, Month int; Zone *Zone }\n\ntype Zone struct{ Offset int }\n" + texts + `
type Closed struct{ Year int; month int }

func (c Closed) MarshalText() ([]byte, error) { return nil, nil }
func (c *Closed) UnmarshalText([]byte) error { return nil }

type Both struct{ Year int }

func (b Both) MarshalText() ([]byte, error) { return nil, nil }
func (b *Both) UnmarshalText([]byte) error { return nil }
func (b Both) MarshalBinary() ([]byte, error) { return nil, nil }
func (b *Both) UnmarshalBinary([]byte) error { return nil }

type Holder struct{ Any any }

func (h Holder) MarshalText() ([]byte, error) { return nil, nil }
func (h *Holder) UnmarshalText([]byte) error { return nil }
`,
		"x/x.go": "package x\n\nimport (\n\t\"context\"\n\n\t\"example.com/civil\"\n)\n\n" + `
//shard:entity
type Task struct {
	ID     string               ` + "`shard:\"id\"`" + `
	Due    civil.Date           ` + "`shard:\"state\"`" + `
	Text   []civil.Date         ` + "`shard:\"state,text\"`" + `
	Own    Date                 ` + "`shard:\"state\"`" + `
	Closed civil.Closed         ` + "`shard:\"state\"`" + `
	Both   civil.Both           ` + "`shard:\"state\"`" + `
	Holder civil.Holder         ` + "`shard:\"state\"`" + `
}

type Date struct{ Year int }
` + texts + `
func (t *Task) Move(_ context.Context, to *civil.Date) error { return nil }
`,
	})
	clean(t, options(dir, "./x"))
	lines := strings.Split(read(t, dir, "x/shard.lock"), "\n")
	for _, want := range []string{
		"kind Task state 1 Due example.com/civil.Date",
		"kind Task state 2 Text []text:example.com/civil.Date",
		"kind Task state 3 Own text:Date",
		"kind Task state 4 Closed text:example.com/civil.Closed",
		"kind Task state 5 Both binary:example.com/civil.Both",
		"kind Task state 6 Holder text:example.com/civil.Holder",
		"kind Task method Move arg 1 to *example.com/civil.Date",
		"type example.com/civil.Zone field 1 Offset int64",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("shard.lock: no line %q", want)
		}
	}
	cmd := exec.Command("go", "vet", "./x")
	cmd.Dir, cmd.Env = dir, environment()
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("the generated code: %v", err)
	}
}

// TestKeysThatTravelAlike checks that encoding refuses a map with different keys of equal
// encodings, also in structs and arrays, and that it writes the value of a NaN key.
func TestKeysThatTravelAlike(t *testing.T) {
	dir := module(t, "example.com/keys", map[string]string{"x/x.go": `package x

import (
	"context"
	"time"
)

//shard:entity
type Book struct {
	ID    string             ` + "`shard:\"id\"`" + `
	Rates map[float64]string ` + "`shard:\"state\"`" + `
	Slots map[Slot]string    ` + "`shard:\"state\"`" + `
	Days  map[[2]time.Time]int ` + "`shard:\"state\"`" + `
	Parts map[Part]int       ` + "`shard:\"state\"`" + `
}

type Slot struct {
	At   time.Time
	Room int
}

type Part struct {
	Number int
	cached int ` + "`shard:\"-\"`" + `
}

func (b *Book) Put(_ context.Context, rates map[float64]string, slots map[Slot]string, days map[[2]time.Time]int, parts map[Part]int) (map[float64]string, map[Slot]string, map[[2]time.Time]int, map[Part]int, error) {
	return rates, slots, days, parts, nil
}
`, "x/x_test.go": `package x

import (
	"math"
	"testing"
	"time"
)

func TestKeys(t *testing.T) {
	at := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	cet := at.In(time.FixedZone("CET", 3600))
	for name, b := range map[string]*Book{
		"struct":  {Slots: map[Slot]string{{at, 1}: "ann", {cet, 1}: "bob"}},
		"array":   {Days: map[[2]time.Time]int{{at, at}: 1, {at, cet}: 2}},
		"skipped": {Parts: map[Part]int{{1, 2}: 1, {1, 3}: 2}},
	} {
		if _, err := appendBookState(nil, b); err == nil {
			t.Errorf("%s: two keys are written as one", name)
		}
	}
	b := &Book{Rates: map[float64]string{math.NaN(): "unknown", 1: "one"}, Slots: map[Slot]string{{at, 1}: "ann", {at, 2}: "bob"}}
	state, err := appendBookState(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	var got Book
	if _, err := decodeBookState(&got, state); err != nil {
		t.Fatal(err)
	}
	for rate, name := range got.Rates {
		if len(got.Rates) != 2 || rate != rate && name != "unknown" {
			t.Errorf("got %v", got.Rates)
		}
	}
	if len(got.Slots) != 2 || got.Slots[Slot{at, 2}] != "bob" {
		t.Errorf("got %v", got.Slots)
	}
}
`})
	clean(t, options(dir, "./x"))
	cmd := exec.Command("go", "test", "./x")
	cmd.Dir, cmd.Env = dir, environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
