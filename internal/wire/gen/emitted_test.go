package main

import (
	"bytes"
	"context"
	"os/exec"
	"testing"

	"github.com/bufbuild/protocompile"
)

// TestEmittedProto: the .proto file that shardgen prints of a contract with all kinds of types is
// valid for a real compiler.
func TestEmittedProto(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "run", "./cmd/shardgen", "contract", "-dir", "internal/gen/alltypes", "proto", "-package", "allTypes")
	command.Dir = "../../.."
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"alltypes.proto": string(text)}),
	})}
	files, err := compiler.Compile(context.WithoutCancel(t.Context()), "alltypes.proto")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if files[0].Messages().ByName("AllTypesEchoListsArgs") == nil || files[0].Services().ByName("AllTypesService") == nil {
		t.Errorf("messages or the service are missing:\n%s", text)
	}
}
