package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	// goPackage is the package of the generated code, or contains it: see the files' go_package
	// option.
	goPackage = "github.com/shardgen/shardgen/internal/wire"
	// namePrefix precedes a file's name in imports and in protobuf's global registry, where a plain
	// frame.proto could clash.
	namePrefix = "shardgen/wire/"
)

func generate(dir string) (map[string][]byte, error) {
	names, err := protoNames(dir)
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: accessor(dir)}),
		SourceInfoMode: protocompile.SourceInfoStandard,
		// Files are compiled one at a time, so that errors come in the order of the files.
		MaxParallelism: 1,
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return nil, err
	}
	var order dependencyOrder
	for _, f := range files {
		order.add(f)
	}
	return emit(names, order.protos)
}

func protoNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".proto") {
			names = append(names, namePrefix+e.Name())
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the folder has no .proto files")
	}
	return names, nil
}

// accessor returns a function that opens a file of dir. The function's argument is namePrefix
// followed by the file's name; any other argument is an error.
func accessor(dir string) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		base, ok := strings.CutPrefix(name, namePrefix)
		if !ok || strings.Contains(base, "/") {
			return nil, fmt.Errorf("import %q: %w (files of this directory are imported as %q)",
				name, os.ErrNotExist, namePrefix+filepath.Base(name))
		}
		return os.Open(filepath.Join(dir, base))
	}
}

// dependencyOrder collects files, each after those that it imports.
type dependencyOrder struct {
	protos []*descriptorpb.FileDescriptorProto
	seen   []string
}

func (d *dependencyOrder) add(f protoreflect.FileDescriptor) {
	if slices.Contains(d.seen, f.Path()) {
		return
	}
	d.seen = append(d.seen, f.Path())
	for i := range f.Imports().Len() {
		d.add(f.Imports().Get(i).FileDescriptor)
	}
	d.protos = append(d.protos, protoutil.ProtoFromFileDescriptor(f))
}

func emit(names []string, protos []*descriptorpb.FileDescriptorProto) (map[string][]byte, error) {
	parameter := "paths=source_relative"
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      &parameter,
		ProtoFile:      protos,
	})
	if err != nil {
		return nil, err
	}
	for _, f := range plugin.Files {
		if got := string(f.GoImportPath); f.Generate && got != goPackage && path.Dir(got) != goPackage {
			return nil, fmt.Errorf("%s: go_package is %q: want %s or a folder in it", f.Desc.Path(), got, goPackage)
		}
		if f.Generate {
			internal_gengo.GenerateFile(plugin, f)
		}
	}
	response := plugin.Response()
	if response.Error != nil {
		return nil, errors.New(*response.Error)
	}
	out := make(map[string][]byte, len(response.File))
	for _, f := range response.File {
		out[path.Base(f.GetName())] = []byte(f.GetContent())
	}
	return out, nil
}
