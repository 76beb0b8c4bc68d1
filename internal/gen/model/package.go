package model

// A Package is one Go package with entities.
type Package struct {
	Path string
	Name string
	Dir  string
	// Constraint is the build constraint of the files of all entities; "" for none.
	Constraint string
	Imports    []Import // every package that generated code may name
	// Entities stand in the order of their positions.
	Entities []*Entity
	// Errors are the declared errors, in the order of their names.
	Errors []*Error
	// ErrorImports are the packages with clients, sorted, whose declared errors the
	// methods may return, too.
	ErrorImports []string
	// Types are those that may need functions of their own in the generated file,
	// in the order of their first use.
	Types []*Type
	// Aliases are the types that generated code has other names for, by [Expr.Alias].
	Aliases []*Expr
	// Clients are the packages that hold clients of entities of this package.
	Clients []*Package
	// Owner is, for a package of clients, the path of the package that has the
	// entities.
	Owner string
	// Tool is the version of the generator.
	Tool string
}

// Header are the first lines of p's generated file.
func (p *Package) Header() []string {
	first, second := headerBegin, headerSource+p.Path
	if p.Tool != "" {
		first += " " + p.Tool
	}
	if p.Owner != "" {
		second = headerSource + p.Owner + headerClient
	}
	return []string{first + headerEnd, second}
}

// An Import is how generated code names another package.
type Import struct {
	Path  string
	Name  string
	Alias bool // Name differs from the name of the package
}
