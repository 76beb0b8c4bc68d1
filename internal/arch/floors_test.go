package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// floors lists the repository's folders from top to bottom. A package belongs to the longest listed
// folder that contains it. It may import packages of its own folder and of folders on lower lines,
// but not of other folders on its line. This binds production code only; tests may import anything.
const floors = `
examples
internal/e2e
internal/sim
internal/test/fixture
cmd/shardgen cmd/shardctl
runtime/admin/dashboard
internal/ops/clusterview
internal/gen
templates
internal/gen/load
internal/gen/contract
internal/gen/model

shardtest runtime/health
runtime
internal/driver/node
internal/driver/control
internal/driver/singlehost internal/driver/remembering
internal/driver/peers
internal/driver/direct
internal/driver/direct/agree
internal/driver/runner internal/driver/counting
internal/driver/calls
internal/driver/shardhost
internal/driver/routing internal/driver/listing internal/driver/feeds
runtime/admin
internal/ops/verdict
internal/ops/operator
internal/core/stream
internal/core/region
internal/ops/storeops
internal/driver/durablehost internal/driver/tablestore
internal/core/feed
internal/core/durable
internal/core/reminders
internal/core/schedule internal/core/clock
runtime/coordinator
internal/core/remember
runtime/singleton
internal/wire/hostmeta
runtime/membership
internal/core/membership/join internal/core/membership/table
internal/core/membership/spread internal/core/membership/downing
internal/core/membership/lease
internal/core/membership/detector
internal/core/membership/core
internal/core/membership/message internal/core/membership/splitbrain
internal/core/membership/rows internal/core/membership/gossip/gossiptest
internal/core/membership/gossip
runtime/measure
runtime/codegen
runtime/placement

transport/nats/embedded
transport/nats transport/memory transport/conformance
stream/nats stream/memory stream/conformance
store/nats store/memory store/conformance store/membertable/conformance
internal/test/natsproc internal/test/pgproc
internal/wire
transport
stream
store/membertable
store
internal/util/invariant internal/util/ordered
internal/util/bounded internal/wire/identity internal/wire/rights
internal/util/tasks internal/util/histogram
internal/test/transcript
internal/arch
`

// A rule restricts what floors allows: packages below the folders importers may not import packages
// below the folders imported. Packages below except are exempt.
type rule struct {
	importers string // a folder, or "" for all
	imported  string // "./" and a folder of this module, or an import path
	except    []string
	why       string
}

// rules are the rules for production code.
var rules = []rule{
	{"transport", "./runtime", nil, "a transport knows nothing of entities"},
	{"store", "./runtime", nil, "a store knows nothing of entities"},
	{"store", "./transport", nil, "a store needs no cluster"},
	{"stream", "./runtime", nil, "a stream knows nothing of entities"},
	{"stream", "./transport", nil, "a stream needs no cluster"},
	{"runtime", "./transport/nats", nil, "the user chooses the transport"},
	{"runtime", "./transport/memory", nil, "the user chooses the transport"},
	{"runtime", "./transport/conformance", nil, "for tests of transports"},
	{"runtime", "./store/nats", nil, "the user chooses the store"},
	{"runtime", "./store/memory", nil, "the user chooses the store"},
	{"runtime", "./stream/nats", nil, "the user chooses the source"},
	{"runtime", "./stream/memory", nil, "for tests"},
	{"examples", "./internal", nil, "examples use public packages only"},
	{"", "./transport/nats/embedded", []string{"examples", "internal/e2e"}, "it links a whole nats-server"},
	{"", "./internal/test/natsproc", []string{"internal/e2e"}, "it builds and starts processes, for tests"},
	{
		"", "testing",
		[]string{"shardtest", "transport/conformance", "store/conformance", "store/membertable/conformance", "stream/conformance", "internal/test/natsproc", "internal/test/pgproc", "internal/e2e", "internal/sim", "internal/test/transcript"},
		"it adds the test flags to users' programs",
	},
	{"internal/gen/model", "github.com", nil, "plain data on the standard library only"},
	{"internal/gen/model", "golang.org", nil, "plain data on the standard library only"},
}

// dependencies lists, for each module, the folders whose production code may import it. No code may
// import another module, because users inherit every dependency.
var dependencies = map[string][]string{
	"github.com/nats-io/nats-server/v2": {"transport/nats/embedded", "internal/test/natsproc", "internal/e2e", "examples"},
	"github.com/nats-io/nats.go":        {"transport/nats", "store/nats", "stream/nats", "internal/test/natsproc", "internal/e2e", "cmd/shardctl", "examples"},
	"github.com/nats-io/nuid":           {"transport/nats"},
	"github.com/cespare/xxhash/v2":      {"internal/driver/control", "internal/driver/node", "runtime", "internal/core/region", "internal/core/remember", "internal/core/schedule", "internal/driver/durablehost"},
	"google.golang.org/protobuf":        {"internal/driver/control", "internal/driver/direct", "internal/wire", "internal/core/durable", "internal/core/reminders", "internal/driver/durablehost", "internal/sim", "internal/core/membership/message", "internal/ops/operator", "runtime/coordinator", "runtime/singleton", "internal/core/remember", "runtime", "internal/gen", "templates", "internal/e2e"},
	"github.com/dave/jennifer":          {"internal/gen", "templates"},
	"golang.org/x/tools":                {"internal/gen"},
	"github.com/anishathalye/porcupine": {"internal/sim", "internal/e2e"},
}

// floorOf parses floors. floor has each folder's line number, counted from the top.
func floorOf() (floor map[string]int, folders []string) {
	floor = make(map[string]int)
	for i, line := range strings.Split(floors, "\n") {
		for _, folder := range strings.Fields(line) {
			floor[folder] = i
			folders = append(folders, folder)
		}
	}
	return floor, folders
}

// folderOf returns the longest of folders that contains dir, or "".
func folderOf(dir string, folders []string) string {
	longest := ""
	for _, folder := range folders {
		if under(dir, folder) && len(folder) > len(longest) {
			longest = folder
		}
	}
	return longest
}

// underAny reports whether dir is one of folders or below one of them.
func underAny(dir string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return under(dir, folder) })
}

// checkImport returns why production code in dir may not import path, or "" if it may.
func checkImport(dir, path string) string {
	folder, own := strings.CutPrefix(path, module+"/")
	target := path
	if own {
		target = "./" + folder
	}
	for _, r := range rules {
		exempt := underAny(dir, r.except) || under("./"+dir, r.imported)
		bound := r.importers == "" || under(dir, r.importers)
		if bound && !exempt && under(target, r.imported) {
			return fmt.Sprintf("%s never imports %s: %s", dir, path, r.why)
		}
	}
	if own {
		return checkFloor(dir, folder)
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for dependency, importers := range dependencies {
		if under(path, dependency) && underAny(dir, importers) {
			return ""
		}
	}
	return fmt.Sprintf("%s imports %s, which dependencies does not allow", dir, path)
}

func checkFloor(dir, target string) string {
	floor, folders := floorOf()
	from, to := folderOf(dir, folders), folderOf(target, folders)
	switch {
	case from == "":
		return fmt.Sprintf("%s stands on no floor (add it to floors)", dir)
	case to == "":
		return fmt.Sprintf("%s stands on no floor (add it to floors)", target)
	case from != to && floor[to] <= floor[from]:
		return fmt.Sprintf("%s imports %s, which is not below it", dir, target)
	}
	return ""
}

func TestImportsGoDown(t *testing.T) {
	_, folders := floorOf()
	for _, f := range loadTree(t) {
		if f.nested {
			continue
		}
		if folderOf(f.dir, folders) == "" {
			t.Errorf("%s: %s stands on no floor (add it to floors)", f.path, f.dir)
		}
		if f.test {
			continue
		}
		for _, path := range f.imports() {
			if why := checkImport(f.dir, path); why != "" {
				t.Errorf("%s: %s", f.path, why)
			}
		}
	}
}

// TestTablesNameFloors checks that rules and dependencies name only folders in floors: a rule with
// a misspelt folder has no effect.
func TestTablesNameFloors(t *testing.T) {
	_, folders := floorOf()
	var named []string
	for _, r := range rules {
		named = append(named, r.except...)
		if r.importers != "" {
			named = append(named, r.importers)
		}
	}
	for _, importers := range dependencies {
		named = append(named, importers...)
	}
	for _, folder := range named {
		if !slices.Contains(folders, folder) {
			t.Errorf("%q is not a line of floors", folder)
		}
	}
}

func TestCheckImport(t *testing.T) {
	tests := []struct {
		dir, path string
		want      string // part of the refusal; "" when allowed
	}{
		{"runtime", module + "/internal/core/region", ""},
		{"runtime", module + "/transport", ""},
		{"runtime", "time", ""},
		{"transport/nats", "runtime", ""}, // the standard library's
		{"runtime", "google.golang.org/protobuf/proto", ""},
		{"internal/e2e/cmd/fault", module + "/internal/e2e", ""},
		{"examples/counter", module + "/transport/nats/embedded", ""},
		{"internal/core/region", module + "/runtime", "not below"},
		{"runtime/membership", module + "/runtime/coordinator", "not below"},
		{"transport/nats", module + "/transport/memory", "not below"},
		{"transport/nats", module + "/runtime/placement", "knows nothing of entities"},
		{"store/nats", module + "/runtime", "knows nothing of entities"},
		{"runtime", module + "/transport/nats", "chooses the transport"},
		{"transport/nats", "github.com/nats-io/nats-server/v2/server", "dependencies does not allow"},
		{"shardtest", module + "/transport/nats/embedded", "whole nats-server"},
		{"runtime", "github.com/stretchr/testify/assert", "dependencies does not allow"},
		{"runtime", "testing", "test flags"},
		{"transport/conformance", "testing", ""},
		{"examples/counter", module + "/internal/wire", "public packages only"},
		{"newcomer", module + "/transport", "no floor"},
		{"runtime", module + "/newcomer", "no floor"},
		{"internal/gen/model", "golang.org/x/tools/go/packages", "standard library only"},
	}
	for _, tt := range tests {
		got := checkImport(tt.dir, tt.path)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("checkImport(%s, %s) = %q, want %q in it", tt.dir, tt.path, got, tt.want)
		}
	}
}
