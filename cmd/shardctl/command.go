package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// A command is a command of shardctl.
type command struct {
	name    string
	about   string
	args    []argument
	timeout time.Duration // its default; 0 means it goes on until it is told to end
	flags   func(*flag.FlagSet, *options)
	run     func(ctx context.Context, c *admin.Client, o *options, w io.Writer) error
	// alone takes the place of run for a command that needs none of an operator's rights, because it
	// asks and commands no member.
	alone func(ctx context.Context, o *options, w io.Writer) error
}

// An argument is a positional argument of a command.
type argument struct {
	name     string // in the usage
	what     string // "say which …" if it is missing
	optional bool
	to       func(*options) *string
}

var (
	argNode   = argument{"NODE", "node", false, func(o *options) *string { return &o.node }}
	argType   = argument{"TYPE", "type", false, func(o *options) *string { return &o.kind }}
	argID     = argument{"ID", "entity", false, func(o *options) *string { return &o.id }}
	argCallee = argument{"ID", "entity (a singleton has the id singleton)", false, func(o *options) *string { return &o.id }}
	argMethod = argument{"METHOD", "method", false, func(o *options) *string { return &o.method }}
	argJSON   = argument{"JSON", "arguments", true, func(o *options) *string { return &o.arguments }}
)

func (a argument) orNone() argument {
	a.optional = true
	return a
}

func (c command) main(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	o, err := c.parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "shardctl %s: %v (shardctl %s -h)\n", c.name, err, c.name)
		return exitUsage
	}
	if err := c.do(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "shardctl:", err)
		return exitFailed
	}
	return exitOK
}

// parse reads the arguments, and the flags, which may stand before, between and behind them.
func (c command) parse(args []string, env func(string) string, stderr io.Writer) (*options, error) {
	var o options
	f := c.flagSet(&o, env)
	err := f.Parse(args)
	rest := f.Args()
	for _, arg := range c.args {
		if err == nil && len(rest) > 0 {
			*arg.to(&o) = rest[0]
			err = f.Parse(rest[1:])
			rest = f.Args()
		}
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stderr, "usage: shardctl %s -cluster NAME [flags]%s\n\n%s\n\n", c.name, c.usage(), c.about)
		f.SetOutput(stderr)
		f.PrintDefaults()
	case err != nil:
	case len(rest) > 0:
		err = fmt.Errorf("unexpected argument %q", rest[0])
	default:
		err = cmp.Or(c.missing(&o), o.check(), o.complete(), transport.CheckName("cluster", o.cluster), checkOptional("store", o.store))
	}
	return &o, err
}

// flagSet has the flags of the command, which set o.
func (c command) flagSet(o *options, env func(string) string) *flag.FlagSet {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // main prints the error
	o.connection.flags(f, env)
	f.StringVar(&o.cluster, "cluster", env("SHARD_CLUSTER"), "`name` of the cluster")
	f.DurationVar(&o.timeout, "timeout", c.timeout, "bound of the whole command; 0s: none")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.wide, "wide", false, "print tables of any width, with incarnations; without it they have at most 80 columns, and long names\nare clipped in the middle")
	if c.flags != nil {
		c.flags(f, o)
	}
	return f
}

// usage is the list of arguments.
func (c command) usage() (text string) {
	for _, a := range c.args {
		if a.optional {
			text += " [" + a.name + "]"
		} else {
			text += " " + a.name
		}
	}
	return text
}

// missing is the error for an argument that is not given.
func (c command) missing(o *options) error {
	for _, a := range c.args {
		if *a.to(o) == "" && !a.optional {
			return errors.New("say which " + a.what)
		}
	}
	return nil
}

func (c command) do(ctx context.Context, o *options, stdout io.Writer) error {
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not within %v (raise -timeout?)", o.timeout))
		defer cancel()
	}
	if c.alone != nil {
		return c.alone(ctx, o, stdout)
	}
	client, err := admin.Dial(ctx, admin.Options{
		Cluster: o.cluster, Name: o.name, Transport: natstransport.New(o.url, natstransport.ConnectOptions(o.connection.options()...)),
	})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // everything was answered
	return c.run(ctx, client, o, stdout)
}
