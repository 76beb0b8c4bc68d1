package alltypes

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestLocalAndRemoteAreEqual calls each Echo method with random values, locally and remotely. It
// compares what the entity got and what the caller got back.
func TestLocalAndRemoteAreEqual(t *testing.T) {
	here, there := &local{alltypes: &AllTypes{}}, &remote{alltypes: &AllTypes{}}
	near, far := reflect.ValueOf(NewAllTypesClient(here).Ref(1)), reflect.ValueOf(NewAllTypesClient(there).Ref(1))
	for i := range near.NumMethod() {
		name := near.Type().Method(i).Name
		if !strings.HasPrefix(name, "Echo") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(300) {
				r := rand.New(rand.NewPCG(1, seed))
				echoBoth(t, r, near.Method(i), far.Method(i), here.alltypes, there.alltypes)
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
		})
	}
}

func echoBoth(t *testing.T, r *rand.Rand, near, far reflect.Value, here, there *AllTypes) {
	args := []reflect.Value{reflect.ValueOf(context.Background())}
	for i := 1; i < near.Type().NumIn(); i++ {
		v := reflect.New(near.Type().In(i)).Elem()
		random(r, v, 6)
		args = append(args, v)
	}
	call := func(f reflect.Value) []reflect.Value {
		if f.Type().IsVariadic() {
			return f.CallSlice(args)
		}
		return f.Call(args)
	}
	fromNear, fromFar := call(near), call(far)
	check := func(c comparison, what string, a, b reflect.Value) {
		t.Helper()
		if why := c.differ(a, b); why != "" {
			t.Errorf("%s%s", what, why)
		}
	}
	last := len(fromNear) - 1
	for i, a := range fromNear[:last] {
		check(comparison{}, "locally and remotely returned", a, fromFar[i])
		check(comparison{arrived: true, apart: true}, "sent and locally returned", args[i+1], a)
		check(comparison{arrived: true, apart: true}, "sent and remotely returned", args[i+1], fromFar[i])
	}
	if !fromNear[last].IsNil() || !fromFar[last].IsNil() {
		t.Errorf("errors %v locally and %v remotely, want none", fromNear[last], fromFar[last])
	}
	check(comparison{}, "locally and remotely seen", reflect.ValueOf(here.seen), reflect.ValueOf(there.seen))
	check(comparison{apart: true}, "seen and returned locally", reflect.ValueOf(here.seen), returned(fromNear))
	if last == 1 {
		check(comparison{arrived: true, apart: true}, "sent and locally seen", args[1], reflect.ValueOf(here.seen))
	}
}

// returned puts the results of a call into the type of AllTypes.seen.
func returned(results []reflect.Value) reflect.Value {
	if len(results) == 2 {
		return results[0]
	}
	var all []any
	for _, r := range results[:len(results)-1] {
		all = append(all, r.Interface())
	}
	return reflect.ValueOf(all)
}

func TestResultsBesideAnErrorDoNotArrive(t *testing.T) {
	for _, c := range []codegen.Caller{&local{alltypes: &AllTypes{}}, &remote{alltypes: &AllTypes{}}} {
		n, names, err := NewAllTypesClient(c).Ref(1).Fail(context.Background())
		if n != 0 || names != nil || !errors.Is(err, errFail) {
			t.Errorf("%T: got %v, %v, %v, want 0, nil, %v", c, n, names, err, errFail)
		}
	}
}

// stateOf returns pointers to the fields of an alltypes's state.
func stateOf(z *AllTypes) []any {
	return []any{&z.Scalars, &z.Lists, &z.Maps, &z.optional, &z.tree, &z.bare, &z.since, &z.others, &z.forest, &z.page, &z.embedding, &z.promoted, &z.texts, &z.oneofs, &z.shape}
}

func randomAllTypes(r *rand.Rand, depth int) *AllTypes {
	z := &AllTypes{}
	for _, field := range stateOf(z) {
		random(r, reflect.ValueOf(field).Elem(), depth)
	}
	return z
}

func TestStateArrives(t *testing.T) {
	for seed := range uint64(300) {
		from := randomAllTypes(rand.New(rand.NewPCG(2, seed)), 5)
		b := encodedState(from)
		to := &AllTypes{ID: 7, bare: Prices{"left from the factory": 1}, Scalars: Scalars{Int: 1}, tree: &Tree{}}
		if _, err := decodeAllTypesState(to, b); err != nil {
			t.Fatal(err)
		}
		clear(b)
		if to.ID != 7 {
			t.Errorf("seed %d: the id became %d, want 7", seed, to.ID)
		}
		for i, field := range stateOf(from) {
			want, got := reflect.ValueOf(field).Elem(), reflect.ValueOf(stateOf(to)[i]).Elem()
			if why := (comparison{arrived: true, apart: true}).differ(want, got); why != "" {
				t.Fatalf("seed %d: %v%s", seed, want.Type(), why)
			}
		}
	}
}

// TestRestKeepsWhatArrived checks that values that were decoded do not change when an entity is
// passivated or moved repeatedly.
func TestRestKeepsWhatArrived(t *testing.T) {
	rest := func(z *AllTypes) *AllTypes {
		t.Helper()
		again := &AllTypes{}
		if _, err := decodeAllTypesState(again, encodedState(z)); err != nil {
			t.Fatal(err)
		}
		return again
	}
	for seed := range uint64(300) {
		arrived := rest(randomAllTypes(rand.New(rand.NewPCG(8, seed)), 5))
		rested := rest(arrived)
		for i, field := range stateOf(arrived) {
			want, got := reflect.ValueOf(field).Elem(), reflect.ValueOf(stateOf(rested)[i]).Elem()
			if why := (comparison{apart: true}).differ(want, got); why != "" {
				t.Fatalf("seed %d: %v%s", seed, want.Type(), why)
			}
		}
	}
}

// TestTextsFailLocallyAsRemotely checks that local and remote calls return the same error for a
// text that cannot be encoded or decoded, and the same value for an empty text.
func TestTextsFailLocallyAsRemotely(t *testing.T) {
	pointer := func(c Code) *Code { return &c }
	fails := func(c codegen.Caller, v Texts) (Texts, error) {
		return NewAllTypesClient(c).Ref(1).EchoTexts(context.Background(), v)
	}
	for name, tt := range map[string]struct {
		v  Texts
		ok bool
	}{
		"zero":                {Texts{}, true},
		"empty in lists":      {Texts{Codes: []Code{""}, ByCode: map[Code]Code{"": ""}, Pointer: pointer(""), Keys: []Key{{cached: 1}}, ByKey: map[Key]Key{{}: {}}}, true},
		"unwritable":          {Texts{Code: "unwritable"}, false},
		"unwritable element":  {Texts{Codes: []Code{"unwritable"}}, false},
		"keys of equal bytes": {Texts{ByKey: map[Key]Key{{ID: 1, cached: 1}: {}, {ID: 1, cached: 2}: {}}}, false},
		"unwritable key":      {Texts{ByCode: map[Code]Code{"unwritable": "a"}}, false},
		"unreadable":          {Texts{Code: "unreadable"}, false},
		"unreadable pointer":  {Texts{Pointer: pointer("unreadable")}, false},
		"invalid prefix":      {Texts{Prefix: netip.PrefixFrom(netip.MustParseAddr("10.0.0.1"), 99)}, true},
		"port alone":          {Texts{AddrPort: netip.AddrPortFrom(netip.Addr{}, 80)}, true},
	} {
		near, nearErr := fails(&local{alltypes: &AllTypes{}}, tt.v)
		far, farErr := fails(&remote{alltypes: &AllTypes{}}, tt.v)
		if (nearErr == nil) != tt.ok || (farErr == nil) != tt.ok {
			t.Errorf("%s: errors %v locally and %v remotely, want ok=%v", name, nearErr, farErr, tt.ok)
			continue
		}
		if why := (comparison{}).differ(reflect.ValueOf(near), reflect.ValueOf(far)); why != "" {
			t.Errorf("%s: locally and remotely returned%s", name, why)
		}
	}
}

func TestEqualMapsHaveEqualBytes(t *testing.T) {
	for seed := range uint64(20) {
		z := &AllTypes{bare: Prices{}}
		for i := range 10 {
			z.bare[Name(rune('a'+(i+int(seed))%10))] = 1
		}
		want := encodedState(&AllTypes{bare: Prices{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1, "i": 1, "j": 1}})
		if got := encodedState(z); string(got) != string(want) {
			t.Fatalf("got %x, want %x", got, want)
		}
	}
}

func TestCirclesAreRefused(t *testing.T) {
	circle := &Tree{Name: "round"}
	circle.Left = circle
	forest := Forest{nil}
	forest[0] = forest
	for _, c := range []codegen.Caller{&local{alltypes: &AllTypes{}}, &remote{alltypes: &AllTypes{}}} {
		ref := NewAllTypesClient(c).Ref(1)
		var encode *codegen.EncodeError
		if _, err := ref.EchoTree(context.Background(), circle); !errors.Is(err, codegen.ErrDepth) || !errors.As(err, &encode) {
			t.Errorf("%T: tree: got %v, want an EncodeError about depth", c, err)
		}
		if _, err := ref.EchoForest(context.Background(), forest); !errors.Is(err, codegen.ErrDepth) {
			t.Errorf("%T: forest: got %v, want %v", c, err, codegen.ErrDepth)
		}
	}
}

// TestDepthLimit checks that every nesting depth that can be encoded can also be decoded, locally
// and remotely.
func TestDepthLimit(t *testing.T) {
	chain := func(length int) *Tree {
		var t *Tree
		for range length {
			t = &Tree{Left: t}
		}
		return t
	}
	for _, c := range []codegen.Caller{&local{alltypes: &AllTypes{}}, &remote{alltypes: &AllTypes{}}} {
		ref := NewAllTypesClient(c).Ref(1)
		longest := 0
		for length := codegen.MaxDepth/2 - 3; length <= codegen.MaxDepth/2+3; length++ {
			if _, err := ref.EchoTree(context.Background(), chain(length)); err == nil {
				longest = length
			} else if !errors.Is(err, codegen.ErrDepth) {
				t.Fatalf("%T: %d: %v", c, length, err)
			}
		}
		if want := codegen.MaxDepth/2 - 1; longest != want {
			t.Errorf("%T: the longest chain has %d links, want %d", c, longest, want)
		}
	}
}

func TestExtractor(t *testing.T) {
	id, err := AllTypesExtractor{}.EntityID(300)
	if id != "300" || err != nil {
		t.Errorf("EntityID(300) = %q, %v", id, err)
	}
	shard, err := AllTypesExtractor{}.Shard(300)
	if err != nil || shard < 16 || shard > 31 {
		t.Errorf("Shard(300) = %d, %v, want one of 16 to 31", shard, err)
	}
}

func TestSetID(t *testing.T) {
	for _, tt := range []struct {
		id   string
		want Count
		ok   bool
	}{{"7", 7, true}, {"65535", 65535, true}, {"65536", 0, false}, {"007", 0, false}, {"+7", 0, false}, {"-1", 0, false}, {"", 0, false}, {"x", 0, false}} {
		var z AllTypes
		err := setAllTypesID(&z, tt.id)
		if z.ID != tt.want || (err == nil) != tt.ok {
			t.Errorf("SetID(%q) set %d with error %v, want %d and ok=%v", tt.id, z.ID, err, tt.want, tt.ok)
		}
	}
}

// FuzzDecode passes arbitrary bytes to every decoder. A value that is decoded must encode to bytes
// that can be decoded again.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(encodedState(randomAllTypes(rand.New(rand.NewPCG(3, seed)), 3)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, method := range methods {
			if name == "Rest" {
				continue // it needs a turn
			}
			_, err := method(context.Background(), &AllTypes{}, b, nil)
			var decode *codegen.DecodeError
			var encode *codegen.EncodeError // a tree may be read that is too deep to write
			if err != nil && !errors.Is(err, errFail) && !errors.As(err, &decode) && !errors.As(err, &encode) {
				t.Errorf("%s: %v is neither a DecodeError nor an EncodeError", name, err)
			}
		}
		var z AllTypes
		if _, err := decodeAllTypesState(&z, b); err != nil {
			return
		}
		defer func() {
			if p := recover(); p != nil && !errors.Is(p.(error), codegen.ErrDepth) {
				panic(p)
			}
		}()
		again := encodedState(&z)
		if _, err := decodeAllTypesState(&z, again); err != nil {
			t.Errorf("what was decoded and encoded does not decode: %v", err)
		}
	})
}

func TestScalarsDoNotAllocate(t *testing.T) {
	alltypes := &AllTypes{}
	args := appendAllTypesPlainArgs(nil, -5, 1<<31, true, 2.5, 200)
	out := make([]byte, 0, 100)
	buffer := make([]byte, 0, 100)
	near := NewAllTypesClient(&local{alltypes: alltypes}).Ref(1)
	for name, f := range map[string]func(){
		"encode":     func() { buffer = appendAllTypesPlainArgs(buffer[:0], -5, 1<<31, true, 2.5, 200) },
		"dispatch":   func() { _, _ = dispatchAllTypesPlain(context.Background(), alltypes, args, out) },
		"local call": func() { _, _, _ = near.Plain(context.Background(), 1, 2, true, 3, 4) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// encodedState returns the encoded state of an alltypes whose state can be encoded.
func encodedState(z *AllTypes) []byte {
	b, err := appendAllTypesState(nil, z)
	if err != nil {
		panic(err)
	}
	return b
}
