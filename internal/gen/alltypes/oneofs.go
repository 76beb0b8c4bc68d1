package alltypes

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Oneofs has fields with interfaces that have cases, in all places where a type may stand.
type Oneofs struct {
	Shape   Shape
	Any     Any
	Shapes  []Shape
	Anys    []Any
	ByName  map[Name]Shape
	Pointer *Shape
	Pair    [2]Shape
	Rows    [][]Shape
	Same    Figure
	Frame   Frame
	Frames  []*Frame
}

// Shape is an interface. Its cases are all types of this package that implement it.
//
//shard:oneof
type Shape interface {
	fmt.Stringer
	isShape()
}

// The cases of Shape.
type (
	Circle struct {
		Radius int
		Tags   map[string]int
		At     time.Time
	}
	// Square implements Shape by its pointer.
	Square struct{ Side Name }
	// Dot has no fields.
	Dot struct{}
	// Group is a slice of shapes.
	Group []Shape
	// Sum is a struct of shapes.
	Sum struct{ Left, Right Shape }
	// Word is a string.
	Word string
	// Index is a map of shapes.
	Index map[Name]Shape
	// Grid is an array that implements Shape by its pointer.
	Grid [2]int
	// Seal has a text form, and implements Shape by its pointer.
	Seal struct{ code Code }
	// Frame implements Shape by embedding a shape.
	Frame struct {
		Shape
		Width Count
	}
)

func (Circle) isShape()  {}
func (*Square) isShape() {}
func (Dot) isShape()     {}
func (Group) isShape()   {}
func (Sum) isShape()     {}
func (Word) isShape()    {}
func (Index) isShape()   {}
func (*Grid) isShape()   {}
func (*Seal) isShape()   {}

func (Circle) String() string  { return "circle" }
func (*Square) String() string { return "square" }
func (Dot) String() string     { return "dot" }
func (Group) String() string   { return "group" }
func (Sum) String() string     { return "sum" }
func (Word) String() string    { return "word" }
func (Index) String() string   { return "index" }
func (*Grid) String() string   { return "grid" }
func (*Seal) String() string   { return "seal" }

// MarshalText returns the code.
func (s *Seal) MarshalText() ([]byte, error) { return s.code.MarshalText() }

// UnmarshalText reads a code.
func (s *Seal) UnmarshalText(text []byte) error { return s.code.UnmarshalText(text) }

// Any is an interface whose directive lists its cases, some of them types of other packages.
//
//shard:oneof int64 bool string *Square Point Names Page[Point] time.Time netip.Addr *wrapperspb.StringValue
type Any interface{}

// Figure is an alias of an interface with cases.
type Figure = Figured

// Figured has cases that are also cases of Shape.
//
//shard:oneof Dot Sum
type Figured interface{ Shape }

var (
	_ Any = netip.Addr{}
	_ Any = (*wrapperspb.StringValue)(nil)
)

// Cage has JSON, for tests of interfaces with cases in JSON.
//
//shard:entity json
type Cage struct{}

// EchoOneofs returns its arguments.
func (c *Cage) EchoOneofs(_ context.Context, v Oneofs) (Oneofs, error) { return v, nil }
