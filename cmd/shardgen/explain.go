package main

import (
	"fmt"
	"io"

	"github.com/shardgen/shardgen/internal/gen"
)

func runExplain(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		for _, code := range gen.Codes() {
			text, _ := gen.Explain(code)
			fmt.Fprintf(stdout, "%s  %s\n", code, text.Title)
		}
		return exitOK
	}
	for _, code := range args {
		text, ok := gen.Explain(code)
		if !ok {
			fmt.Fprintf(stderr, "shardgen: %s: no such code (shardgen explain lists them)\n", code)
			return exitUsage
		}
		fmt.Fprintf(stdout, "%s: %s\n\n%s\n", text.Code, text.Title, text.Text)
	}
	return exitOK
}
