package load

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
)

// A Code names a kind of mistake. Codes are never reused.
type Code string

// The codes of diagnostics.
const (
	CodeSyntax      Code = "SG001" // the package does not parse
	CodePackage     Code = "SG002" // the package cannot be read
	CodeNearMiss    Code = "SG101" // a misspelt directive
	CodeOption      Code = "SG102" // an unknown or malformed option of a directive
	CodeMisplaced   Code = "SG104" // a directive in the wrong place
	CodeEntity      Code = "SG105" // a struct that cannot be an entity
	CodeShards      Code = "SG106" // shards= is not a power of two
	CodeHash        Code = "SG107" // hash= names no usable function
	CodeKind        Code = "SG108" // a bad or duplicate kind name
	CodeClient      Code = "SG109" // a package that cannot hold a client
	CodeMethod      Code = "SG201" // an exported method that is nearly a message
	CodeHook        Code = "SG202" // a method that is nearly a hook
	CodeNoMessages  Code = "SG203" // an entity without messages
	CodeNoContext   Code = "SG204" // an exported method without a context
	CodeError       Code = "SG205" // a declaration that cannot be a declared error
	CodeSameMessage Code = "SG206" // two methods with the same message struct
	CodeReceiver    Code = "SG207" // a message or hook with a value receiver
	CodePassedOn    Code = "SG208" // declared errors that the client's package does not know
	CodeOneof       Code = "SG209" // an interface that cannot have cases
	CodeType        Code = "SG301" // a type that cannot cross the wire
	CodeUnknownType Code = "SG302" // a type that does not type-check
	CodeTag         Code = "SG401" // a shard tag that is not known here
	CodeIDTwice     Code = "SG402" // two fields tagged id
	CodeIDType      Code = "SG403" // an id type that cannot be a key
	CodeUntagged    Code = "SG404" // a field without a tag, whose value would be lost
	CodeTaken       Code = "SG501" // a name that generated code also declares
	CodeForeign     Code = "SG502" // a file that was not generated has the output's name
)

// A Diagnostic is one mistake in the user's source.
type Diagnostic struct {
	Pos     token.Position
	Code    Code
	Message string // subject and cause of the mistake, with a colon between them
	Remedy  string // may be empty
}

// String reads file:line:col: code: message (remedy).
func (d Diagnostic) String() string {
	s := fmt.Sprintf("%v: %s: %s", d.Pos, d.Code, d.Message)
	if d.Remedy != "" {
		s += " (" + d.Remedy + ")"
	}
	return s
}

type report struct {
	fset *token.FileSet
	list []Diagnostic
}

func (r *report) add(pos token.Pos, code Code, remedy, format string, args ...any) {
	r.list = append(r.list, Diagnostic{r.fset.Position(pos), code, fmt.Sprintf(format, args...), remedy})
}

func (r *report) sorted() []Diagnostic {
	slices.SortStableFunc(r.list, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Pos.Filename, b.Pos.Filename),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(r.list)
}
