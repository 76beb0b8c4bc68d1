package templates

import "github.com/shardgen/shardgen/internal/gen/model"

const shopPath = "example.com/shop"

func named(path, name string) *model.Expr { return &model.Expr{Path: path, Name: name} }

// shop is the package that the loader would make from this source:
//
//	type Stock struct {
//		ID    SKU             `shard:"id"`
//		Left  int64           `shard:"state"`
//		Lines map[SKU]Line    `shard:"state"`
//	}
//
//	// Reserve takes one piece for order.
//	func (s *Stock) Reserve(ctx context.Context, order OrderID) (left int64, err error)
//	func (s *Stock) Fill(ctx context.Context, tree *Tree, lines ...Line) ([]Line, error)
//	func (s *Stock) Ping(context.Context) error
//
//	type Line struct {
//		SKU   SKU
//		Count int
//		Price *big.Int
//		Grid  [2][]int
//		cache []int `shard:"-"`
//	}
//
//	type Tree struct { Left, Right *Tree; At time.Time }
func shop() *model.Package {
	sku := &model.Type{Shape: model.String, Expr: named(shopPath, "SKU"), Name: "SKU", Zero: model.ZeroString, Plain: true}
	order := &model.Type{Shape: model.String, Expr: named(shopPath, "OrderID"), Name: "OrderID", Zero: model.ZeroString, Plain: true}
	int64s := &model.Type{Shape: model.Int, Expr: named("", "int64"), Name: "Int64", Plain: true}
	ints := &model.Type{Shape: model.Int, Expr: named("", "int"), Name: "Int", Plain: true}
	intSlice := &model.Type{Shape: model.Slice, Elem: ints, Expr: &model.Expr{Op: model.SliceOf, Elem: ints.Expr}, Name: "IntSlice", Zero: model.ZeroNil}
	grid := &model.Type{
		Shape: model.Array, Elem: intSlice, Expr: &model.Expr{Op: model.ArrayOf, Elem: intSlice.Expr, Len: 2},
		Name: "IntSliceArray2", Zero: model.ZeroBraces,
	}
	price := &model.Type{Shape: model.Text, Expr: named("math/big", "Int"), Name: "BigInt", Zero: model.ZeroBraces, Fallible: true, CloneFallible: true}
	pricePointer := pointer(price, "BigIntPointer")
	line := &model.Type{
		Shape: model.Struct, Expr: named(shopPath, "Line"), Name: "Line", Zero: model.ZeroBraces, Fallible: true, CloneFallible: true,
		Fields:  []model.Field{{Name: "SKU", Number: 1, Type: sku}, {Name: "Count", Number: 2, Type: ints}, {Name: "Price", Number: 3, Type: pricePointer}, {Name: "Grid", Number: 4, Type: grid}},
		Skipped: []model.Skipped{{Name: "cache", Zero: model.ZeroNil}},
	}
	lines := &model.Type{
		Shape: model.Slice, Elem: line, Expr: &model.Expr{Op: model.SliceOf, Elem: line.Expr},
		Name: "LineSlice", Zero: model.ZeroNil, Fallible: true, CloneFallible: true,
	}
	bySKU := &model.Type{
		Shape: model.Map, Key: sku, Elem: line, Expr: &model.Expr{Op: model.MapOf, Key: sku.Expr, Elem: line.Expr},
		Name: "SKULineMap", Zero: model.ZeroNil, Fallible: true, CloneFallible: true, NeedsInit: true,
	}
	at := &model.Type{Shape: model.Time, Expr: named("time", "Time"), Name: "TimeTime", Zero: model.ZeroBraces}
	tree := &model.Type{Shape: model.Struct, Expr: named(shopPath, "Tree"), Name: "Tree", Zero: model.ZeroBraces, Recursive: true, Fallible: true, CloneFallible: true}
	treePointer := pointer(tree, "TreePointer")
	treePointer.Recursive = true
	tree.Fields = []model.Field{{Name: "Left", Number: 1, Type: treePointer}, {Name: "Right", Number: 2, Type: treePointer}, {Name: "At", Number: 3, Type: at}}

	stock := &model.Entity{
		Name: "Stock", Kind: "stock", Shards: 64,
		Hash:  &model.Hash{Func: "ByWarehouse", Name: shopPath + ".ByWarehouse"},
		ID:    model.ID{Field: "ID", Type: sku.Expr, Form: model.IDString},
		Hooks: model.Hooks{Activate: true, Passivate: true},
		State: []model.Field{{Name: "Left", Number: 1, Type: int64s}, {Name: "Lines", Number: 2, Type: bySKU}},
		Methods: []*model.Method{
			{
				Name: "Reserve", Wire: "Reserve", Doc: []string{"// Reserve takes one piece for order."}, Context: "ctx",
				Params: []model.Param{{Name: "order", Number: 1, Type: order}}, Results: []model.Param{{Name: "left", Number: 1, Type: int64s}}, Error: "err",
			},
			{
				Name: "Fill", Wire: "Fill", Context: "ctx", Params: []model.Param{{Name: "tree", Number: 1, Type: treePointer}, {Name: "lines", Number: 2, Type: lines}},
				Results: []model.Param{{Number: 1, Type: lines}}, Variadic: true,
			},
			{Name: "Ping", Wire: "Ping"},
		},
	}
	return &model.Package{
		Path: shopPath, Name: "shop",
		Imports: []model.Import{
			{Path: ContextPath, Name: "context"},
			{Path: ErrorsPath, Name: "errors"},
			{Path: ShardPath, Name: "shard", Alias: true},
			{Path: CodegenPath, Name: "codegen"},
			{Path: "math/big", Name: "big"},
			{Path: "time", Name: "time"},
		},
		Entities: []*model.Entity{stock},
		Types:    []*model.Type{sku, order, int64s, ints, line, lines, bySKU, pricePointer, price, grid, intSlice, treePointer, tree, at},
	}
}

func pointer(to *model.Type, name string) *model.Type {
	return &model.Type{
		Shape: model.Pointer, Elem: to, Expr: &model.Expr{Op: model.PointerTo, Elem: to.Expr}, Name: name, Zero: model.ZeroNil,
		Fallible: to.Fallible, CloneFallible: to.CloneFallible,
	}
}
