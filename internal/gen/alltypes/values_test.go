package alltypes

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"reflect"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// random fills v with a random value that contains nil, empty and zero values.
func random(r *rand.Rand, v reflect.Value, depth int) {
	if special(r, v) {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.Uint64()) >> r.IntN(64))
		if r.IntN(4) == 0 {
			v.SetInt(0)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(65))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, 1.5, -2, r.NormFloat64()}[r.IntN(4)])
	case reflect.String:
		v.SetString([]string{"", "a", "äöü", fmt.Sprint(r.Uint32())}[r.IntN(4)])
	case reflect.Slice:
		n := r.IntN(4)
		if depth <= 0 || n == 0 {
			v.SetZero()
			if r.IntN(2) == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			}
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			random(r, v.Index(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			random(r, v.Index(i), depth-1)
		}
	case reflect.Map:
		randomMap(r, v, depth)
	case reflect.Pointer:
		v.SetZero()
		if depth > 0 && r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			random(r, v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				random(r, v.Field(i), depth-1)
			}
		}
	case reflect.Interface:
		randomCase(r, v, depth)
	default:
		panic("cannot make a " + v.Type().String())
	}
}

// casesOf are the types that each interface may hold.
var casesOf = map[reflect.Type][]reflect.Type{
	reflect.TypeFor[Shape](): {
		reflect.TypeFor[Circle](), reflect.TypeFor[*Square](), reflect.TypeFor[Dot](), reflect.TypeFor[Word](), reflect.TypeFor[*Grid](),
		reflect.TypeFor[*Seal](), reflect.TypeFor[Group](), reflect.TypeFor[Sum](), reflect.TypeFor[Index](), reflect.TypeFor[Frame](),
	},
	reflect.TypeFor[Any](): {
		reflect.TypeFor[int64](), reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[*Square](), reflect.TypeFor[Point](),
		reflect.TypeFor[Names](), reflect.TypeFor[Page[Point]](), reflect.TypeFor[time.Time](), reflect.TypeFor[netip.Addr](),
		reflect.TypeFor[*wrapperspb.StringValue](),
	},
	reflect.TypeFor[Figured](): {reflect.TypeFor[Dot](), reflect.TypeFor[Sum]()},
}

func randomCase(r *rand.Rand, v reflect.Value, depth int) {
	v.SetZero()
	cases := casesOf[v.Type()]
	if depth <= 0 || r.IntN(len(cases)+1) == 0 {
		return
	}
	t := cases[r.IntN(len(cases))]
	if t.Kind() != reflect.Pointer {
		made := reflect.New(t).Elem()
		random(r, made, depth-1)
		v.Set(made)
		return
	}
	made := reflect.New(t.Elem()) // encoding refuses a nil pointer
	switch made := made.Interface().(type) {
	case *wrapperspb.StringValue:
		made.Value = fmt.Sprint(r.IntN(3))
	case *Seal:
		made.code = Code(fmt.Sprint(r.IntN(3)))
	default:
		random(r, reflect.ValueOf(made).Elem(), depth-1)
	}
	v.Set(made)
}

func randomMap(r *rand.Rand, v reflect.Value, depth int) {
	if r.IntN(4) == 0 {
		v.SetZero()
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	if depth <= 0 {
		return
	}
	for range r.IntN(4) {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		random(r, key, depth-1)
		random(r, value, depth-1)
		v.SetMapIndex(key, value)
	}
}

// special sets v if its type needs more than random fields, and reports whether it did.
func special(r *rand.Rand, v reflect.Value) bool {
	var made any
	switch v.Interface().(type) {
	case time.Time:
		made = []time.Time{{}, time.Unix(0, 0), time.Now(), time.Unix(r.Int64N(1<<40), r.Int64N(1e9)).In(time.FixedZone("x", 3600))}[r.IntN(4)]
	case big.Int:
		made = *new(big.Int).Lsh(big.NewInt(r.Int64()-1<<62), uint(r.IntN(200)))
	case netip.Addr:
		made = []netip.Addr{{}, netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(4))}), netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("::ffff:1.2.3.4%eth0")}[r.IntN(4)]
	case netip.Prefix:
		made = []netip.Prefix{{}, netip.PrefixFrom(netip.AddrFrom4([4]byte{10}), r.IntN(33))}[r.IntN(2)]
	case url.URL:
		made = []url.URL{{}, {Scheme: "https", Host: "example.com", User: url.UserPassword("a", "b")}}[r.IntN(2)]
	case *wrapperspb.StringValue:
		made = []*wrapperspb.StringValue{nil, {}, wrapperspb.String("x")}[r.IntN(3)]
	case *wrapperspb.Int64Value:
		made = []*wrapperspb.Int64Value{nil, {}, wrapperspb.Int64(r.Int64())}[r.IntN(3)]
	case big.Float:
		made = []big.Float{{}, *new(big.Float).SetPrec(200).SetMode(big.ToZero).Quo(big.NewFloat(1), big.NewFloat(3)), *new(big.Float).SetInf(true)}[r.IntN(3)]
	case Others:
		for i := range v.NumField() {
			random(r, v.Field(i), 2)
		}
		v.Addr().Interface().(*Others).AsText = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), uint16(r.IntN(3)))
		return true
	case netip.AddrPort:
		made = []netip.AddrPort{{}, netip.AddrPortFrom(netip.Addr{}, 80), netip.MustParseAddrPort("[fe80::1%eth0]:80")}[r.IntN(3)]
	case Key:
		made = Key{ID: uint8(r.IntN(3)), cached: uint8(r.IntN(3))}
	case map[Key]Key: // keys that travel as the same bytes are one key
		made = map[Key]Key{{ID: uint8(r.IntN(3)), cached: 1}: {ID: uint8(r.IntN(3)), cached: 1}}
	case Embedding:
		var p Point
		random(r, reflect.ValueOf(&p).Elem(), 1)
		e := Embedding{Point: p, hidden: "h", stays: map[string]int{"x": 1}}
		random(r, reflect.ValueOf(&e.tags).Elem(), 2)
		random(r, reflect.ValueOf(&e.Scalars).Elem(), 2)
		made = e
	default:
		return false
	}
	v.Set(reflect.ValueOf(made))
	return true
}

// A comparison compares two values of one type, part by part.
type comparison struct {
	// arrived means that b was decoded from what a was encoded as. It may then differ from a in the
	// ways that package codegen documents; otherwise they must be equal.
	arrived bool
	// apart means that a and b must not share memory.
	apart bool
}

// differ returns where a and b differ, or "" if they do not.
func (c comparison) differ(a, b reflect.Value) string {
	if a.Type() != b.Type() {
		return fmt.Sprintf(": %v and %v", a.Type(), b.Type())
	}
	if a.CanInterface() {
		if done, why := c.special(a.Interface(), b.Interface()); done {
			return why
		}
	}
	if why := c.differInNil(a, b); why != "" {
		return why
	}
	switch a.Kind() {
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Sprintf(": %d and %d elements", a.Len(), b.Len())
		}
		for i := range a.Len() {
			if why := c.differ(a.Index(i), b.Index(i)); why != "" {
				return fmt.Sprintf("[%d]%s", i, why)
			}
		}
		return ""
	case reflect.Map:
		return c.differInMap(a, b)
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() {
			return ""
		}
		return c.differ(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			if c.arrived && name == "stays" {
				if !b.Field(i).IsNil() {
					return ".stays: arrived"
				}
				continue
			}
			if why := c.differ(a.Field(i), b.Field(i)); why != "" {
				return "." + name + why
			}
		}
		return ""
	}
	if !a.Equal(b) {
		return fmt.Sprintf(": %v and %v", a, b)
	}
	return ""
}

// differInNil compares whether a and b are nil or empty, and whether they share memory.
func (c comparison) differInNil(a, b reflect.Value) string {
	switch a.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
	case reflect.Interface:
		if a.IsNil() != b.IsNil() {
			return fmt.Sprintf(": nil is %v and %v", a.IsNil(), b.IsNil())
		}
		return ""
	default:
		return ""
	}
	switch {
	case c.arrived && a.Kind() == reflect.Slice:
		if a.Len() == 0 && !b.IsNil() {
			return ": an empty slice is not nil"
		}
	case c.arrived && a.Kind() == reflect.Map:
		if b.IsNil() {
			return ": a nil map"
		}
	case a.IsNil() != b.IsNil():
		return fmt.Sprintf(": nil is %v and %v", a.IsNil(), b.IsNil())
	}
	empty := a.Kind() == reflect.Slice && a.Len() == 0 || a.IsNil() || a.Kind() == reflect.Pointer && a.Type().Elem().Size() == 0
	if c.apart && !empty && a.Pointer() == b.Pointer() {
		return fmt.Sprintf(": shared %v", a.Type())
	}
	return ""
}

func (c comparison) differInMap(a, b reflect.Value) string {
	if a.Len() != b.Len() {
		return fmt.Sprintf(": %d and %d keys", a.Len(), b.Len())
	}
	for _, key := range a.MapKeys() {
		other := b.MapIndex(key)
		if !other.IsValid() {
			return fmt.Sprintf("[%v]: missing", key)
		}
		if why := c.differ(a.MapIndex(key), other); why != "" {
			return fmt.Sprintf("[%v]%s", key, why)
		}
	}
	return ""
}

// special compares values whose types need more than a comparison of their fields. done is false
// for other types.
func (c comparison) special(a, b any) (done bool, why string) {
	switch a := a.(type) {
	case time.Time:
		b := b.(time.Time)
		// Equal instants of one zone without monotonic readings are equal by ==.
		if !a.Equal(b) || a.IsZero() != b.IsZero() || b != b.Round(0).UTC() || !c.arrived && a != b {
			return true, fmt.Sprintf(": %#v and %#v", a, b)
		}
		return true, ""
	case big.Int:
		b := b.(big.Int)
		if a.Cmp(&b) != 0 {
			return true, fmt.Sprintf(": %v and %v", &a, &b)
		}
		if c.apart && len(a.Bits()) > 0 && &a.Bits()[0] == &b.Bits()[0] {
			return true, ": shared big.Int"
		}
		return true, ""
	case netip.Addr, netip.Prefix, netip.AddrPort:
		return true, unequal(a, b)
	case big.Float:
		b := b.(big.Float)
		same := a.Cmp(&b) == 0 && a.Prec() == b.Prec() && a.Mode() == b.Mode() && a.Acc() == b.Acc()
		if !same {
			return true, fmt.Sprintf(": %v and %v", &a, &b)
		}
		return true, ""
	case Cents:
		if c.arrived {
			a = a / 100 * 100
		}
		return true, unequal(a, b)
	case Key:
		if c.arrived {
			a.cached = 0
		}
		return true, unequal(a, b)
	case map[Key]Key:
		if c.arrived {
			whole := make(map[Key]Key)
			for key, value := range a {
				whole[Key{ID: key.ID}] = Key{ID: value.ID}
			}
			a = whole
		}
		if c.arrived || !reflect.DeepEqual(a, b) {
			return true, unequal(fmt.Sprint(a), fmt.Sprint(b))
		}
		return true, ""
	case Label, *Label: // by their fields
		return false, ""
	case proto.Message:
		b := b.(proto.Message)
		element := c.arrived && !a.ProtoReflect().IsValid() && proto.Size(b) == 0
		if !element && (a.ProtoReflect().IsValid() != b.ProtoReflect().IsValid() || !proto.Equal(a, b)) {
			return true, fmt.Sprintf(": %v and %v", a, b)
		}
		if c.apart && a == b && a.ProtoReflect().IsValid() {
			return true, ": shared message"
		}
		return true, ""
	}
	return false, ""
}

func unequal(a, b any) string {
	if a != b {
		return fmt.Sprintf(": %v and %v", a, b)
	}
	return ""
}
