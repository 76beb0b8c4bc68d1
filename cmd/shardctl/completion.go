package main

import (
	"fmt"
	"io"
	"strings"
)

// completions are the scripts that complete the names of commands, by shell. %s is the list of them.
var completions = map[string]string{
	"bash": "complete -W %q shardctl\n",
	"zsh":  "#compdef shardctl\ncompadd -- ${=:-%q}\n",
	"fish": "complete -c shardctl -n __fish_use_subcommand -f -a %q\n",
}

// runCompletion prints the script for a shell.
func runCompletion(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || completions[args[0]] == "" {
		fmt.Fprintln(stderr, "usage: shardctl completion bash|zsh|fish\n\nPrints a script that completes the names of commands: source <(shardctl completion bash)")
		if len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
			return exitOK
		}
		return exitUsage
	}
	names := []string{"store", "permissions", "completion", "help"}
	for _, c := range commands {
		names = append(names, c.name)
	}
	fmt.Fprintf(stdout, completions[args[0]], strings.Join(names, " "))
	return exitOK
}
