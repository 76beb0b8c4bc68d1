package zoo

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Oneofs has interfaces with closed sets of implementations in all places.
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

// Shape is any type of this package with its method.
//
//shard:oneof
type Shape interface {
	fmt.Stringer
	isShape()
}

// The shapes.
type (
	Circle struct {
		Radius int
		Tags   map[string]int
		At     time.Time
	}
	// Square is one by its pointer.
	Square struct{ Side Name }
	// Dot has nothing.
	Dot struct{}
	// Group holds shapes.
	Group []Shape
	// Sum holds shapes, too.
	Sum struct{ Left, Right Shape }
	// Word is a text.
	Word string
	// Index is a map of shapes.
	Index map[Name]Shape
	// Grid is an array, by its pointer.
	Grid [2]int
	// Seal is a text of its own, by its pointer.
	Seal struct{ code Code }
	// Frame embeds a shape, and is one by that.
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

// Any is one of a list, with types of other packages.
//
//shard:oneof int64 bool string *Square Point Names Page[Point] time.Time netip.Addr *wrapperspb.StringValue
type Any interface{}

// Figure is another name.
type Figure = Figured

// Figured shares cases with Shape.
//
//shard:oneof Dot Sum
type Figured interface{ Shape }

var (
	_ Any = netip.Addr{}
	_ Any = (*wrapperspb.StringValue)(nil)
)

// Cage returns values of types with a JSON form of their own.
//
//shard:entity json
type Cage struct{}

// EchoOneofs returns its arguments.
func (c *Cage) EchoOneofs(_ context.Context, v Oneofs) (Oneofs, error) { return v, nil }
