package model

// A Package is a Go package that gets a generated file: it has entities, or only the clients of
// another package's entities.
type Package struct {
	Path string
	Name string
	Dir  string
	// Constraint is the build constraint of the files of all entities; "" for none.
	Constraint string
	Imports    []Import // every package that generated code may name
	// Entities are in the order of their positions in the source.
	Entities []*Entity
	// Errors are the declared errors, sorted by name.
	Errors []*Error
	// ErrorImports are imported packages with clients, sorted by path. Methods may return the
	// errors that these packages declare.
	ErrorImports []string
	// Types may need functions in the generated file. They are in the order of their first use.
	Types []*Type
	// Aliases are the types for which generated code uses another name, [Expr.Alias].
	Aliases []*Expr
	// Clients are the separate packages that hold clients of this package's entities.
	Clients []*Package
	// Owner is the path of the entities' package if this package holds only their clients;
	// otherwise it is "".
	Owner string
	// Tool is the version of the generator.
	Tool string
}

// Header returns the first lines of p's generated file.
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

// An Import is an import of the generated file, with the name that its code uses.
type Import struct {
	Path  string
	Name  string
	Alias bool // Name differs from the name of the package
}
