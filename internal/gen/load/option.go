package load

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

const (
	defaultShards = 256
	maxShards     = 1 << 16 // every process holds the table of all shards
	// Commits of one shard share appends, so a durable type has few shards. The store
	// bounds their number.
	durableShards    = 64
	maxDurableShards = 2048
)

var options = map[string][]string{
	"entity":    {"name", "shards", "hash", "durable", "ttl", "version", "keep", "snapshot", "client", "json", "tell"},
	"pool":      {"name", "shards", "client", "json", "tell"},
	"singleton": {"name", "durable", "version", "keep", "snapshot", "client", "json", "tell"},
}

// kindName restricts kinds, because subjects and metrics contain them.
var kindName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkDurable checks that a durable entity has state and few shards. Without the option shards= it
// sets durableShards.
func checkDurable(s *source, n *model.Entity, m *marked, shards bool) {
	switch {
	case n.Singleton:
	case !shards:
		n.Shards = durableShards
	case n.Shards > maxDurableShards:
		s.add(m.directive.Slash, CodeShards, "write shards="+strconv.Itoa(maxDurableShards)+" or fewer", "shards=%d: a durable type has at most %d", n.Shards, maxDurableShards)
	}
	if len(n.State) == 0 && !tagsState(m) {
		s.add(m.directive.Slash, CodeOption, "tag the fields that must survive `shard:\"state\"`, or remove durable", "%s: durable, and no field is tagged state", n.Name)
	}
}

// tagsState reports whether a field of m is tagged state. It also counts fields whose type was
// refused.
func tagsState(m *marked) bool {
	u := m.object.Type().Underlying().(*types.Struct)
	for i := range u.NumFields() {
		tag := reflect.StructTag(u.Tag(i)).Get("shard")
		if _, _, ok := stateOptions(tag); ok || tag == "state" {
			return true
		}
	}
	return false
}

func readVersion(s *source, n *model.Entity, a ast.DirectiveArg, value string) {
	version, err := strconv.Atoi(value)
	if err != nil || version < 1 || version > maxVersion {
		s.add(a.Pos, CodeOption, "write a number from 1 on, and raise it by 1 with each change of the state that MigrateState handles", "version=%s: not a version from 1 to %d", value, maxVersion)
		return
	}
	n.Version = version
}

const maxVersion = 1_000_000

// migrateMethod converts state of an earlier version.
const migrateMethod = "MigrateState"

// checkVersion reports a MigrateState that is missing or not needed, or has the wrong signature.
func checkVersion(s *source, n *model.Entity, m *marked) {
	f := declared(types.NewPointer(m.object.Type()), migrateMethod)
	fits := f != nil && f.Params().Len() == 1 && types.Identical(f.Params().At(0).Type(), types.Typ[types.Int]) && !f.Variadic() &&
		f.Results().Len() == 1 && isError(f.Results().At(0).Type())
	want := "func (e *" + n.Name + ") " + migrateMethod + "(from int) error"
	switch {
	case n.Version > 1 && f == nil:
		s.add(m.directive.Slash, CodeHook, "declare "+want, "version=%d: %s has no %s", n.Version, n.Name, migrateMethod)
	case f != nil && !fits:
		s.add(m.directive.Slash, CodeHook, "declare "+want, "%s.%s: its signature is wrong", n.Name, migrateMethod)
	case f != nil && n.Version < 2:
		s.add(m.directive.Slash, CodeOption, "write version=2, or remove the method", "%s.%s: nothing to migrate: the state has only version 1", n.Name, migrateMethod)
	}
}

func readTTL(s *source, n *model.Entity, a ast.DirectiveArg, value string) {
	age, ok := readAge(value)
	if !ok {
		s.add(a.Pos, CodeOption, "write minutes, hours or days, like ttl=30d", "ttl=%s: not an age from 1m to 36500d", value)
		return
	}
	n.TTL = age
}

func optionRemedy(m *marked, key string) string {
	known := options[m.directive.Name]
	if key == "ttl" && m.singleton() {
		return "remove it: a singleton lives as long as its cluster, also without calls"
	}
	if slices.Contains(options["entity"], key) {
		if m.pool() {
			return "remove it: a pool keeps no state, and its instances have numbers"
		}
		return "remove it: a singleton has only one instance"
	}
	if meant := nearest(strings.ToLower(key), known); meant != "" {
		return "write " + meant
	}
	return "there are " + strings.Join(known, ", ")
}

func shardsRemedy(shards, most int, err error) string {
	if err != nil || shards < 1 || shards > maxShards {
		return "leave it out for the default"
	}
	next := 1
	for next < shards {
		next *= 2
	}
	return "write shards=" + strconv.Itoa(min(next, most))
}

func checkKinds(s *directives) {
	first := make(map[string]string)
	for i, n := range s.model.Entities {
		if other, twice := first[n.Kind]; twice {
			s.add(s.marked[i].directive.Slash, CodeKind, "give one of them another name=", "%s: its name %s is taken by %s", n.Name, n.Kind, other)
			continue
		}
		first[n.Kind] = n.Name
	}
}

type optionReader struct {
	*unit
	n  *model.Entity // the entity that is read
	m  *marked
	h  *unit // package into which n's client is printed
	id types.Type
}

// readOptions applies the options. s.id must be set, because the function of hash= takes an id.
func (s *optionReader) readOptions() {
	n, m := s.n, s.m
	args, err := m.directive.ParseArgs()
	if err != nil {
		s.add(m.directive.Slash, CodeOption, "write options as key=value, separated by spaces", "//shard:%s: %v", m.directive.Name, err)
		return
	}
	seen := make(map[string]bool)
	most := maxShards
	if slices.ContainsFunc(args, func(a ast.DirectiveArg) bool { return a.Arg == "durable" }) {
		most = maxDurableShards
	}
	for _, a := range args {
		key, value, hasValue := strings.Cut(a.Arg, "=")
		switch {
		case !slices.Contains(options[m.directive.Name], key):
			s.add(a.Pos, CodeOption, optionRemedy(m, key), "%s: no such option of //shard:%s", key, m.directive.Name)
			continue
		case seen[key]:
			s.add(a.Pos, CodeOption, "keep one", "%s: given twice", key)
			continue
		case (key == "json" || key == "durable") && hasValue:
			s.add(a.Pos, CodeOption, "write "+key, "%s: takes no value", a.Arg)
			continue
		case key == "tell" && value != "all":
			s.add(a.Pos, CodeOption, "write tell=all for tells of methods with results, or leave it out", "%s: the only value is all", a.Arg)
			continue
		case key != "json" && key != "durable" && (!hasValue || value == ""):
			s.add(a.Pos, CodeOption, "write "+key+"=VALUE", "%s: no value", key)
			continue
		}
		seen[key] = true
		switch key {
		case "name":
			s.readName(a, value)
		case "shards":
			s.readShards(a, value, most)
		case "hash":
			s.readHash(a, value)
		case "durable":
			n.Durable = true
		case "version":
			readVersion(s.source, n, a, value)
		case "ttl":
			readTTL(s.source, n, a, value)
		case "json":
			n.JSON = true
		case "tell":
			n.TellAll = true
		case "keep":
			if n.Journal != nil {
				readKeep(s.report, n.Journal, a, value)
			}
		case "snapshot":
			if n.Journal != nil {
				readSnapshot(s.report, n.Journal, a, value)
			}
		}
	}
	option := ""
	for _, key := range []string{"keep", "snapshot"} {
		if seen[key] {
			option = key
		}
	}
	checkJournal(s.source, n, m, option)
	checkIndexes(s.source, n, m)
	if n.Durable {
		checkDurable(s.source, n, m, seen["shards"])
		checkVersion(s.source, n, m)
	} else if n.Version > 0 {
		s.add(m.directive.Slash, CodeOption, "write durable, or remove version=: without durable no state is stored", "version=: %s is not durable", n.Name)
	} else if n.TTL > 0 {
		s.add(m.directive.Slash, CodeOption, "write durable, or remove ttl=: idle entities are passivated anyway", "ttl=: %s is not durable", n.Name)
	}
}

func (s *optionReader) readName(a ast.DirectiveArg, value string) {
	if !kindName.MatchString(value) {
		s.add(a.Pos, CodeKind, "want 1 to 64 letters, digits, _ and -", "name=%s: not the name of a type", value)
		return
	}
	s.n.Kind = value
}

// readShards parses shards=, a power of two. checkDurable reports too many for a durable type.
func (s *optionReader) readShards(a ast.DirectiveArg, value string, most int) {
	shards, err := strconv.Atoi(value)
	if err != nil || shards < 1 || shards > maxShards || shards&(shards-1) != 0 {
		s.add(a.Pos, CodeShards, shardsRemedy(shards, most, err), "shards=%s: not a power of two from 1 to %d", value, most)
		return
	}
	s.n.Shards = shards
}

// readHash checks that hash= names an exported func(ID) uint64 of the client's package.
func (s *optionReader) readHash(a ast.DirectiveArg, value string) {
	h, id := s.h, s.id
	qualifier := types.RelativeTo(h.pkg.Types)
	want := "func " + value + "(" + types.TypeString(id, qualifier) + ") uint64"
	f, _ := h.pkg.Types.Scope().Lookup(value).(*types.Func)
	switch {
	case !token.IsIdentifier(value):
		s.add(a.Pos, CodeHash, "name an exported function of "+called(h, s.unit), "hash=%s: not a function's name", value)
		return
	case f == nil:
		s.add(a.Pos, CodeHash, "declare "+want, "hash=%s: no such function in %s", value, called(h, s.unit))
		return
	case !f.Exported():
		s.add(a.Pos, CodeHash, "start its name with a capital: clients call it", "hash=%s: not exported", value)
		return
	}
	signature := f.Signature()
	params, results := signature.Params(), signature.Results()
	fits := signature.TypeParams() == nil && !signature.Variadic() && params.Len() == 1 && results.Len() == 1 &&
		types.Identical(params.At(0).Type(), id) && types.Identical(results.At(0).Type(), types.Typ[types.Uint64])
	if !fits {
		s.add(a.Pos, CodeHash, "declare "+want, "hash=%s: its type is %s", value, types.TypeString(signature, qualifier))
		return
	}
	s.n.Hash = &model.Hash{Func: value, Name: "splitmix64(" + s.pkg.PkgPath + "." + value + ")"}
}
