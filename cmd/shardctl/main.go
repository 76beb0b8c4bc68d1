// Command shardctl shows and commands a cluster, over NATS.
//
//	shardctl status  -cluster shop
//	shardctl members -cluster shop
//	shardctl where   -cluster shop stock tea
//	shardctl leave   -cluster shop web-3
//	shardctl down    -cluster shop web-3#5a0c8e1f22d90b47
//	shardctl join    -cluster shop web-4
//	shardctl state   -cluster shop stock tea
//	shardctl store   list
//
// shardctl -h and shardctl COMMAND -h print the flags. The exit code is 0 when the command
// was carried out, 1 when it was not, and 2 when it was called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `usage: shardctl COMMAND -cluster NAME [flags] [NODE]

  status             report whether the cluster is healthy, and if not, why; the exit code is 1 then
  members            list the members, and where singletons run, as one of them sees the cluster
  join NODE          tell a process that waits (Config.JoinByCommand) to join
  leave NODE         make a member leave in order, and wait until it is gone
  down NODE          declare a member dead whose process has stopped
  shards [TYPE]      list the shards by type and member, or each shard of a type
  where TYPE ID      print the home of an entity, and the coordinator's reason for it
  counters           list how often each member did something other than run a call directly
  state TYPE [ID]    list the entities whose state cannot be read; print, replace or drop a state
  store COMMAND      list, verify, export, import, repair and delete durable entities (shardctl store -h)
  permissions ROLE   print the NATS permissions of a worker, client, operator, reader or gateway caller

NODE is a name, or name#incarnation where several have the name.
shardctl COMMAND -h lists a command's flags. NATS_URL, SHARD_CLUSTER and
SHARD_OPERATOR stand in for -nats, -cluster and -name.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// A command is a command of shardctl.
type command struct {
	name    string
	about   string
	node    bool          // takes one
	kind    bool          // takes a type, which may be left out
	entity  bool          // takes a type and an id
	wantsID bool          // the id must not be left out
	timeout time.Duration // its default
	flags   func(*flag.FlagSet, *options)
	run     func(ctx context.Context, c *admin.Client, o *options, w io.Writer) error
}

// options are the values of flags and arguments.
type options struct {
	connection
	cluster   string
	timeout   time.Duration
	json      bool
	node      string
	kind, id  string
	out, from string
	drop      bool
	through   string
	force     bool
}

var commands = []command{
	{
		name: "status", timeout: 10 * time.Second, run: status,
		about: "Reports whether the cluster is healthy. It is not if a member is down, is not reachable or does not\nanswer, if a shard has no home, or if a singleton runs nowhere. The exit code is 0 if it is healthy,\nand 1 otherwise.",
	},
	{
		name: "shards", kind: true, timeout: 10 * time.Second, run: shards,
		about: "Without TYPE, lists for each type and member how many shards it has. With TYPE, lists each shard.\nEvery member visits its shards for it.",
	},
	{
		name: "where", entity: true, wantsID: true, timeout: 10 * time.Second, run: where,
		about: "Prints the home of an entity, active or not: its shard, the member and the epoch, and why the\ncoordinator chose the member. ID is as on the wire: the string itself, or an integer in decimal.",
	},
	{
		name: "counters", timeout: 10 * time.Second, run: counters,
		about: "Lists the counters of all members, by reason, without those that are 0. They count from the start\nof each process.",
	},
	{
		name: "members", timeout: 10 * time.Second, run: members,
		about: "Lists the members, the oldest first, as one of them sees the cluster, and where each\nsingleton runs.",
	},
	{
		name: "join", node: true, timeout: 60 * time.Second, run: join,
		about: "Commands the process of that name, which was started with Config.JoinByCommand, to join,\nand waits until it is up. A first node founds the cluster.",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.through, "through", "", "comma-separated `names` of nodes to join through (default: the Seeds of its config)")
		},
	},
	{
		name: "leave", node: true, timeout: 2 * time.Minute, run: leave,
		about: "Makes a member give its shards and their state to the others, leave and stop, and waits\nuntil it is no longer a member.",
	},
	{
		name: "down", node: true, timeout: 10 * time.Second, run: down,
		about: "Declares a member dead. Its shards are then given to other members: make sure that its process\nhas stopped. A member that is up and reachable is refused.",
		flags: func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.force, "force", false, "down it although it is up and reachable: its process has certainly stopped")
		},
	},
	{
		name: "state", entity: true, timeout: 10 * time.Second, run: state,
		about: "Without ID, lists the entities of a type whose state their nodes could not read when they were\ncalled. With ID, prints the entity's state; with -from or -drop sets it, unless it is active.",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.out, "o", "", "write the encoded state to `file`: a message as shardgen contract proto describes it")
			f.StringVar(&o.from, "from", "", "replace the state by the content of `file`; a state that cannot be read is refused")
			f.BoolVar(&o.drop, "drop", false, "drop the state: the entity's next call finds it fresh")
		},
	},
}

func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.main(ctx, args[1:], env, stdout, stderr)
		}
	}
	switch args[0] {
	case "store":
		return runStore(ctx, args[1:], env, stdout, stderr)
	case "permissions":
		return runPermissions(args[1:], env, stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	fmt.Fprintf(stderr, "shardctl: unknown command %q\n\n%s", args[0], usage)
	return exitUsage
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

// parse reads the flags, which may stand before and after the node.
func (c command) parse(args []string, env func(string) string, stderr io.Writer) (*options, error) {
	var o options
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // main prints the error
	o.connection.flags(f, env)
	f.StringVar(&o.cluster, "cluster", env("SHARD_CLUSTER"), "`name` of the cluster")
	f.DurationVar(&o.timeout, "timeout", c.timeout, "bound of the whole command")
	f.BoolVar(&o.json, "json", false, "print JSON")
	if c.flags != nil {
		c.flags(f, &o)
	}
	err := f.Parse(args)
	rest := f.Args()
	for _, to := range c.arguments(&o) {
		if err == nil && len(rest) > 0 {
			*to = rest[0]
			err = f.Parse(rest[1:])
			rest = f.Args()
		}
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		node := ""
		if c.node {
			node = " NODE"
		} else if c.wantsID {
			node = " TYPE ID"
		} else if c.entity {
			node = " TYPE [ID]"
		} else if c.kind {
			node = " [TYPE]"
		}
		fmt.Fprintf(stderr, "usage: shardctl %s -cluster NAME [flags]%s\n\n%s\n\n", c.name, node, c.about)
		f.SetOutput(stderr)
		f.PrintDefaults()
	case err != nil:
	case len(rest) > 0:
		err = fmt.Errorf("unexpected argument %q", rest[0])
	case c.node && o.node == "":
		err = errors.New("say which node")
	case c.entity && o.kind == "":
		err = errors.New("say which type")
	case c.wantsID && o.id == "":
		err = errors.New("say which entity")
	case c.entity && o.id == "" && (o.drop || o.from != "" || o.out != ""):
		err = errors.New("say which entity")
	case o.drop && o.from != "":
		err = errors.New("-drop and -from: give one of them")
	case o.cluster == "":
		err = errors.New("say which -cluster")
	case o.timeout <= 0:
		err = fmt.Errorf("-timeout is %v: want more than 0", o.timeout)
	default:
		err = errors.Join(o.complete(), transport.CheckName("cluster", o.cluster))
	}
	return &o, err
}

// arguments returns the destinations of the arguments that are not flags.
func (c command) arguments(o *options) []*string {
	switch {
	case c.node:
		return []*string{&o.node}
	case c.entity:
		return []*string{&o.kind, &o.id}
	case c.kind:
		return []*string{&o.kind}
	}
	return nil
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func (c command) do(ctx context.Context, o *options, stdout io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not within %v (raise -timeout?)", o.timeout))
	defer cancel()
	client, err := admin.Dial(ctx, admin.Options{
		Cluster: o.cluster, Name: o.name, Transport: natstransport.New(o.url, natstransport.ConnectOptions(o.connection.options()...)),
	})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // everything was answered
	return c.run(ctx, client, o, stdout)
}

func members(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, viewOf(o.cluster, v))
	}
	return printView(w, v)
}

func join(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	var through []string
	if o.through != "" {
		through = strings.Split(o.through, ",")
	}
	node, err := c.Join(ctx, o.node, through...)
	return printDone(w, o, node, "is up", err)
}

func leave(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	node, err := c.Leave(ctx, o.node)
	return printDone(w, o, node, "has left", err)
}

func down(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	node, err := c.Down(ctx, o.node, o.force)
	return printDone(w, o, node, "is down", err)
}
