// Package alltypes tests generated codecs with an entity, [AllTypes], that takes and returns values of every
// kind of type. The tests compare the codecs with protobuf's own, and with the copies that local
// calls make.
package alltypes

import (
	"context"
	"errors"
	"math/big"
	"net/netip"
	"net/url"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// Named types of various kinds, for the fields of the structs below.
type (
	Flag    bool
	Tiny    int8
	Count   uint16
	Name    string
	Blob    []byte
	Names   []Name
	Prices  map[Name]float64
	Levels  []Level
	Level   byte // a slice of these is no []byte
	Seconds = time.Duration
)

// Scalars has a field of every scalar kind.
type Scalars struct {
	Bool    bool
	Int     int
	Int8    int8
	Int16   int16
	Int32   int32
	Int64   int64
	Uint    uint
	Uint8   uint8
	Uint16  uint16
	Uint32  uint32
	Uint64  uint64
	Float32 float32
	Float64 float64
	String  string
	Rune    rune
	Flag    Flag
	Tiny    Tiny
	Count   Count
	Name    Name
	Wait    Seconds
}

// Lists has slices and arrays of all kinds.
type Lists struct {
	Bytes    []byte
	Blob     Blob
	Bools    []bool
	Ints     []int
	Tinies   []Tiny
	Uints    []uint32
	Floats   []float32
	Doubles  []float64
	Strings  []string
	Names    Names
	Levels   Levels
	Blobs    [][]byte
	Waits    []Seconds
	Times    []time.Time
	Scalars  []Scalars
	Pointers []*Scalars
	Numbers  []*int
	Nested   [][]int
	Deep     [][][]Name
	Maps     []map[Name]int
	Protos   []*wrapperspb.StringValue
	Hashes   [][4]byte
	Bigs     []*big.Int
	Grid     [2][3]int
	Hash     [16]byte
	Triple   [3]Name
	Pair     [2]Scalars
	Rows     [2][]string
	Sets     [2]map[Name]bool
}

// Maps has maps of all kinds.
type Maps struct {
	Ints     map[int]string
	Bools    map[bool]int
	Uints    map[uint8]float32
	Prices   Prices
	Scalars  map[Name]Scalars
	Pointers map[Name]*Scalars
	Lists    map[string][]string
	Maps     map[string]map[string]int
	Bytes    map[string][]byte
	Times    map[int64]time.Time
	Arrays   map[int64][2]int
	Sets     map[Name]struct{}
	Points   map[Point]string
	Addrs    map[netip.Addr]int
	Protos   map[string]*wrapperspb.Int64Value
}

// A Point is a struct that is a map's key.
type Point struct{ X, Y int }

// Optional has pointers to all kinds of values.
type Optional struct {
	Bool    *bool
	Int     *int32
	String  *Name
	Time    *time.Time
	Bytes   *[]byte
	Scalars *Scalars
	Strings *[]string
	Prices  *Prices
	Hash    *[4]byte
	Grid    *[2]int
	Double  **int
	Big     *big.Int
	Proto   *wrapperspb.StringValue
}

// Others has types with an encoding of their own: text, binary, gob or protobuf.
type Others struct {
	Time   time.Time
	Big    big.Int
	Addr   netip.Addr
	Prefix netip.Prefix
	URL    url.URL
	Float  big.Float
	Floats []*big.Float
	AsText netip.AddrPort `shard:"text"`
	Proto  *wrapperspb.StringValue
}

// A Tree is a struct that contains trees.
type Tree struct {
	Name     Name
	Children []Tree
	Left     *Tree
	ByName   map[Name]*Tree
}

// Forest is a slice whose elements are of its own type.
type Forest []Forest

// A Page is a generic struct.
type Page[T any] struct {
	Items []T
	First T
	Next  *Page[T]
}

// Embedding has an embedded struct, unexported fields, and a field that is not encoded.
type Embedding struct {
	Point
	*Scalars
	hidden string
	tags   []string
	stays  map[string]int `shard:"-"`
}

// Promoted has structs that embed a type with its own encoding. The structs do not use the encoding
// of the embedded type: they are encoded field by field.
type Promoted struct {
	Due    Due
	Port   Port
	Ports  map[Port]Due
	Money  Money
	Amount *Amount
	Label  Label
	Labels []*Label
}

// The types of Promoted.
type (
	Due struct {
		time.Time
		Name Name
	}
	Port struct {
		netip.Addr
		Number uint16
	}
	Money struct {
		*big.Int
		Currency Name
	}
	Amount struct {
		big.Int
		Currency Name
	}
	Label struct {
		*wrapperspb.StringValue
		Extra Name
	}
)

// Pen has an index of every kind that an index can have.
//
//shard:entity durable
type Pen struct {
	Bool   bool      `shard:"state,index"`
	Int    int       `shard:"state,index"`
	Tiny   Tiny      `shard:"state,index"`
	Uint64 uint64    `shard:"state,index"`
	Level  Level     `shard:"state,index"`
	Name   Name      `shard:"state,index"`
	Wait   Seconds   `shard:"state,index"`
	since  time.Time `shard:"state,index"`
}

// Clean does nothing.
func (p *Pen) Clean(context.Context) error { return nil }

// AllTypes is an entity whose Echo methods take a value of every kind and return it.
//
//shard:entity name=allTypes shards=16 tell=all
type AllTypes struct {
	ID        Count       `shard:"id"`
	Scalars   Scalars     `shard:"state"`
	Lists     Lists       `shard:"state"`
	Maps      Maps        `shard:"state"`
	optional  Optional    `shard:"state"`
	tree      *Tree       `shard:"state"`
	bare      Prices      `shard:"state"`
	since     time.Time   `shard:"state"`
	others    Others      `shard:"state"`
	forest    Forest      `shard:"state"`
	page      Page[Point] `shard:"state"`
	embedding Embedding   `shard:"state"`
	promoted  Promoted    `shard:"state"`
	texts     Texts       `shard:"state"`
	oneofs    Oneofs      `shard:"state"`
	shape     Shape       `shard:"state"`
	seen      any         `shard:"-"` // the value of the last message
}

// Plain takes five scalars: a call that must not allocate.
func (z *AllTypes) Plain(ctx context.Context, a int64, b uint32, c bool, d float64, e Level) (int64, Level, error) {
	return a + int64(b), e, nil
}

// EchoScalars returns its arguments.
func (z *AllTypes) EchoScalars(_ context.Context, v Scalars) (Scalars, error) {
	z.seen = v
	return v, nil
}

// EchoLists returns its arguments.
func (z *AllTypes) EchoLists(_ context.Context, v Lists) (Lists, error) { z.seen = v; return v, nil }

// EchoMaps returns its arguments.
func (z *AllTypes) EchoMaps(_ context.Context, v Maps) (Maps, error) { z.seen = v; return v, nil }

// EchoOptional returns its arguments.
func (z *AllTypes) EchoOptional(_ context.Context, v Optional) (Optional, error) {
	z.seen = v
	return v, nil
}

// EchoOthers returns its arguments.
func (z *AllTypes) EchoOthers(_ context.Context, v Others) (Others, error) { z.seen = v; return v, nil }

// EchoTree returns its arguments.
func (z *AllTypes) EchoTree(_ context.Context, v *Tree) (*Tree, error) { z.seen = v; return v, nil }

// EchoForest returns its arguments.
func (z *AllTypes) EchoForest(_ context.Context, v Forest) (Forest, error) { z.seen = v; return v, nil }

// EchoPage returns its arguments.
func (z *AllTypes) EchoPage(_ context.Context, v Page[Point]) (Page[Point], error) {
	z.seen = v
	return v, nil
}

// EchoEmbedding returns its arguments.
func (z *AllTypes) EchoEmbedding(_ context.Context, v Embedding) (Embedding, error) {
	z.seen = v
	return v, nil
}

// EchoPromoted returns its arguments.
func (z *AllTypes) EchoPromoted(_ context.Context, v Promoted) (Promoted, error) {
	z.seen = v
	return v, nil
}

// EchoTexts returns its arguments.
func (z *AllTypes) EchoTexts(_ context.Context, v Texts) (Texts, error) { z.seen = v; return v, nil }

// EchoCode returns its arguments.
func (z *AllTypes) EchoCode(_ context.Context, v Code) (Code, error) { z.seen = v; return v, nil }

// EchoOneofs returns its arguments.
func (z *AllTypes) EchoOneofs(_ context.Context, v Oneofs) (Oneofs, error) { z.seen = v; return v, nil }

// EchoShapes returns its arguments.
func (z *AllTypes) EchoShapes(_ context.Context, one Shape, more ...Shape) (Shape, []Shape, error) {
	z.seen = []any{one, more}
	return one, more, nil
}

// Everything is the whole state of an AllTypes.
type Everything struct {
	Scalars   Scalars
	Lists     Lists
	Maps      Maps
	Optional  Optional
	Tree      *Tree
	Bare      Prices
	Since     time.Time
	Others    Others
	Forest    Forest
	Page      Page[Point]
	Embedding Embedding
	Promoted  Promoted
	Texts     Texts
	Oneofs    Oneofs
	Shape     Shape
}

// Keep replaces the whole state.
func (z *AllTypes) Keep(_ context.Context, v Everything) error {
	*z = AllTypes{
		z.ID, v.Scalars, v.Lists, v.Maps, v.Optional, v.Tree, v.Bare, v.Since, v.Others, v.Forest, v.Page, v.Embedding,
		v.Promoted, v.Texts, v.Oneofs, v.Shape, nil,
	}
	return nil
}

// Kept returns the whole state.
func (z *AllTypes) Kept(context.Context) (Everything, error) {
	return Everything{
		z.Scalars, z.Lists, z.Maps, z.optional, z.tree, z.bare, z.since, z.others, z.forest, z.page, z.embedding,
		z.promoted, z.texts, z.oneofs, z.shape,
	}, nil
}

// Rest asks for passivation after this turn.
func (z *AllTypes) Rest(ctx context.Context) error { return shard.Passivate(ctx) }

// EchoBare returns its arguments, whose types are in no struct.
func (z *AllTypes) EchoBare(
	_ context.Context, m map[string][]int, s [][]byte, p *int, t time.Time, n *wrapperspb.StringValue, more ...Name,
) (map[string][]int, [][]byte, *int, time.Time, *wrapperspb.StringValue, []Name, error) {
	z.seen = []any{m, s, p, t, n, more}
	return m, s, p, t, n, more, nil
}

var errFail = errors.New("fail")

// Fail returns results and an error: callers get only the error.
func (z *AllTypes) Fail(context.Context) (_ int, _ Names, err error) { return 1, Names{"x"}, errFail }
