package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// printMan prints the manual page of shardctl, from what -h prints.
func printMan(w io.Writer) error {
	var b strings.Builder
	head, rest, _ := strings.Cut(usage, "\n\n")
	last := strings.LastIndex(rest, "\n\n") + 2
	overview, end := rest[:last], rest[last:]
	b.WriteString(".TH SHARDCTL 1\n.SH NAME\nshardctl \\- show and command a cluster of shardgen, over NATS\n.SH SYNOPSIS\n")
	fmt.Fprintf(&b, ".B %s\n.SH DESCRIPTION\n.nf\n%s.fi\n%s.SH COMMANDS\n", roff(strings.TrimPrefix(head, "usage: ")), roff(overview), roff(end))
	noEnv := func(string) string { return "" }
	for _, c := range commands {
		manCommand(&b, c.name+" \\-cluster NAME [flags]"+c.usage(), c.about, c.flagSet(&options{}, noEnv))
	}
	for _, all := range [][]storeCommand{feedCommands, storeCommands} {
		for _, c := range all {
			manCommand(&b, c.title()+" [flags]"+c.arguments(), c.about, c.flagSet(&storeOptions{}, noEnv))
		}
	}
	b.WriteString(".SH EXIT STATUS\n0 if the command was carried out, 1 if it failed, 2 if its arguments are wrong.\n")
	b.WriteString(".SH ENVIRONMENT\n.TP\n.B NATS_URL, SHARD_CLUSTER, SHARD_OPERATOR\nDefaults of \\-nats, \\-cluster and \\-name.\n.TP\n.B NO_COLOR\nIf set, no colours are printed.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func manCommand(b *strings.Builder, usage, about string, f *flag.FlagSet) {
	fmt.Fprintf(b, ".SS %s\n%s\n", usage, roff(about))
	f.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		fmt.Fprintf(b, ".TP\n.B \\-%s\n%s", strings.TrimSpace(f.Name+" "+value), roff(text))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
			fmt.Fprintf(b, " (default %s)", roff(f.DefValue))
		}
		b.WriteString("\n")
	})
}

// roff escapes what troff would take for a command.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
