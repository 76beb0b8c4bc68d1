package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
)

// completeCommand is the shardctl command that the completion scripts of the shells run. Its
// arguments are the words typed so far. It prints the possible completions of the last word, one a
// line.
const completeCommand = "__complete"

var completions = map[string]string{
	"bash": `_shardctl() {
  COMPREPLY=($(compgen -W "$(shardctl __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _shardctl shardctl
`,
	"zsh": `#compdef shardctl
_shardctl() { compadd -- ${(f)"$(shardctl __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"} }
compdef _shardctl shardctl
`,
	"fish": "complete -c shardctl -f -a '(shardctl __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'\n",
}

// completeTimeout bounds requests for names, because the shell waits.
const completeTimeout = 2 * time.Second

func runCompletion(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || completions[args[0]] == "" {
		fmt.Fprintln(stderr, "usage: shardctl completion bash|zsh|fish\n\nPrints a script that completes commands, flags, and the names of members, types and methods: source <(shardctl completion bash)")
		if len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
			return exitOK
		}
		return exitUsage
	}
	fmt.Fprint(stdout, completions[args[0]])
	return exitOK
}

func runComplete(ctx context.Context, words []string, env func(string) string, stdout io.Writer) int {
	if len(words) == 0 {
		words = []string{""}
	}
	typed := words[len(words)-1]
	for _, candidate := range candidates(ctx, words[:len(words)-1], typed, env) {
		if strings.HasPrefix(candidate, typed) {
			fmt.Fprintln(stdout, candidate)
		}
	}
	return exitOK
}

func candidates(ctx context.Context, before []string, typed string, env func(string) string) (all []string) {
	if len(before) == 0 {
		return names()
	}
	switch before[0] {
	case "store":
		if len(before) == 1 {
			for _, c := range storeCommands {
				all = append(all, c.name)
			}
		}
		return all
	case "completion":
		return []string{"bash", "fish", "zsh"}
	case "permissions":
		return []string{"client", "gateway", "operator", "reader", "store", "worker"}
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == before[0] })
	if i < 0 {
		return nil
	}
	return commands[i].candidates(ctx, before[1:], typed, env)
}

func (c command) candidates(ctx context.Context, before []string, typed string, env func(string) string) (all []string) {
	var o options
	f := c.flagSet(&o, env)
	if strings.HasPrefix(typed, "-") {
		f.VisitAll(func(f *flag.Flag) { all = append(all, "-"+f.Name) })
		return all
	}
	given := 0
	for f.Parse(before) == nil && f.NArg() > 0 {
		if given < len(c.args) {
			*c.args[given].to(&o) = f.Arg(0)
		}
		before = f.Args()[1:]
		given++
	}
	// A flag without its value does not parse: its value is the word that is typed.
	if f.Parse(before) != nil || given >= len(c.args) || o.complete() != nil || o.cluster == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	client, err := o.dial(ctx, o.cluster)
	if err != nil {
		return nil
	}
	defer func() { _ = client.Close() }() // it only asked
	v, err := client.Members(ctx)
	if err != nil {
		return nil
	}
	switch c.args[given].name {
	case argNode.name:
		for _, m := range v.Members {
			all = append(all, m.Name)
		}
	case argMethod.name:
		all = methodsOf(ctx, client, o.kind)
	case argType.name:
		for _, m := range v.Members {
			all = append(all, m.Hosts...)
		}
		for _, s := range v.Singletons {
			all = append(all, s.Kind)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// methodsOf returns a type's methods, as its hosts report them.
func methodsOf(ctx context.Context, client *admin.Client, kind string) (all []string) {
	facts, err := client.Facts(ctx)
	if err != nil {
		return nil
	}
	for _, f := range facts {
		for _, c := range f.Contracts {
			if c.Kind == kind {
				all = append(all, c.Methods...)
			}
		}
	}
	return all
}
