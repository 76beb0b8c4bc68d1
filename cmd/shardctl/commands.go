package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"text/template"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

type command struct {
	name    string
	about   string
	args    []argument
	timeout time.Duration // the default of -timeout; 0 means that the command runs until it is interrupted
	reads   bool          // the command changes nothing, so it has -watch
	flags   func(*flag.FlagSet, *options)
	run     func(ctx context.Context, c *admin.Client, o *options, w io.Writer) error
	// alone takes the place of run for a command that needs none of an operator's rights, because it
	// asks and commands no member.
	alone func(ctx context.Context, o *options, w io.Writer) error
}

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
	argCallee = argument{"ID", "entity (a singleton has the id singleton, a pool numbers and any)", false, func(o *options) *string { return &o.id }}
	argShard  = argument{"TYPE/SHARD", "shard", false, func(o *options) *string { return &o.shard }}
	argMethod = argument{"METHOD", "method", false, func(o *options) *string { return &o.method }}
	argCount  = argument{"N", "number of instances", true, func(o *options) *string { return &o.count }}
	argJSON   = argument{"JSON", "arguments", true, func(o *options) *string { return &o.arguments }}
)

func (a argument) orNone() argument {
	a.optional = true
	return a
}

func (c command) main(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	o, err := c.parse(args, env, stderr)
	return exitCode(stderr, c.name, err, func() error {
		return repeat(ctx, o.watch, stdout, stderr, func() error {
			return printBy(o.form, stdout, func(w io.Writer) error { return c.do(ctx, o, w) })
		})
	})
}

// exitCode prints err, the error of parsing the arguments. If err is nil, it calls the function do
// and prints the error that do returns. It returns the exit code.
func exitCode(stderr io.Writer, name string, err error, do func() error) int {
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "shardctl %s: %v (shardctl %s -h)\n", name, err, name)
		return exitUsage
	}
	if err := do(); err != nil {
		fmt.Fprintln(stderr, "shardctl:", err)
		return exitFailed
	}
	return exitOK
}

// parseAmong parses arguments with flags before, between and after them. It prints the usage for
// -h.
func parseAmong(f *flag.FlagSet, args []string, places []*string, stderr io.Writer, usage, about string) (given int, err error) {
	f.SetOutput(io.Discard) // the caller prints the error
	err = f.Parse(args)
	for err == nil && f.NArg() > 0 && given < len(places) {
		*places[given] = f.Arg(0)
		given++
		err = f.Parse(f.Args()[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stderr, "usage: shardctl %s\n\n%s\n\n", usage, about)
		f.SetOutput(stderr)
		f.PrintDefaults()
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return given, err
}

func (c command) parse(args []string, env func(string) string, stderr io.Writer) (*options, error) {
	var o options
	var places []*string
	for _, arg := range c.args {
		places = append(places, arg.to(&o))
	}
	_, err := parseAmong(c.flagSet(&o, env), args, places, stderr, c.name+" -cluster NAME [flags]"+c.usage(), c.about)
	if err == nil {
		err = cmp.Or(c.missing(&o), o.check(), o.complete(), transport.CheckName("cluster", o.cluster), checkOptional("store", o.store))
	}
	return &o, err
}

func (c command) flagSet(o *options, env func(string) string) *flag.FlagSet {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller prints the error
	o.connection.flags(f, env)
	f.StringVar(&o.cluster, "cluster", env("SHARD_CLUSTER"), "`name` of the cluster")
	f.DurationVar(&o.timeout, "timeout", c.timeout, "bound of the whole command; 0s: none")
	jsonFlags(f, &o.json, &o.form)
	if c.reads {
		f.DurationVar(&o.watch, "watch", 0, "run the command again after each `time`, until it is interrupted; -timeout bounds each run")
	}
	f.BoolVar(&o.wide, "wide", false, "print tables of any width, with incarnations; without it they have at most 80 columns, and long names\nare clipped in the middle")
	if c.flags != nil {
		c.flags(f, o)
	}
	return f
}

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
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the command did not end within %v (raise -timeout?)", o.timeout))
		defer cancel()
	}
	if c.alone != nil {
		return c.alone(ctx, o, stdout)
	}
	client, err := o.dial(ctx, o.cluster)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // everything was answered
	return c.run(ctx, client, o, stdout)
}

type options struct {
	connection
	cluster   string
	timeout   time.Duration
	json      bool
	form      *template.Template // of -json; nil means none
	watch     time.Duration
	wide      bool
	node      string
	kind, id  string
	shard     string // a type and a number, as Cart/300
	method    string
	arguments string
	count     string
	out, from string
	drop      bool
	through   string
	force     bool
	withdraw  bool
	follow    bool
	since     time.Duration
	at        string // of events, as momentOf reads it; so are begin and until
	begin     string
	until     string
	command   string
	every     time.Duration
	level     slog.Level
	grep      string
	rows      int
	listen    string
	showState bool
	list      admin.Listing
	cancel    string // name of a reminder
	retry     string // name of a reminder
	pause     bool   // reminders
	resume    bool   // reminders
	store     string // of doctor: its name; "" means as the members say
}

func (o *options) check() error {
	switch {
	case o.id == "" && (o.drop || o.from != "" || o.out != ""):
		return errors.New("say which entity")
	case o.drop && o.from != "":
		return errors.New("-drop and -from: give one of them")
	case o.cluster == "":
		return errors.New("say which -cluster")
	case o.timeout < 0:
		return fmt.Errorf("-timeout is %v: want more than 0", o.timeout)
	case o.spanErr() != nil:
		return o.spanErr()
	case o.watch < 0:
		return fmt.Errorf("-watch is %v: want more than 0", o.watch)
	case o.since < 0:
		return fmt.Errorf("-since is %v: want more than 0", o.since)
	case o.every < 0:
		return fmt.Errorf("-every is %v: want more than 0", o.every)
	case o.rows < 0:
		return fmt.Errorf("-rows is %d: want 0 or more", o.rows)
	case o.list.Limit < 0:
		return fmt.Errorf("-limit is %d: want 0 or more", o.list.Limit)
	}
	return nil
}

func (o *options) spanErr() error {
	_, err := spanOf(o.at, o.begin, o.until, time.Now())
	return err
}

var commands = []command{
	{
		name: "status", reads: true, timeout: 10 * time.Second, run: status,
		about: "Reports whether the cluster is healthy. It is not if a member is down, is not reachable or does not\nanswer, if a shard has no home, if a durable shard has not opened for 10 s, or if a singleton runs nowhere.\nThe exit code is 0 if it is healthy, and 1 otherwise.",
	},
	{
		name: "shards", reads: true, args: []argument{argType.orNone()}, timeout: 10 * time.Second, run: shards,
		about: "Without TYPE, lists for each type and member how many shards it has. With TYPE, lists each shard.\nEvery member visits its shards for it.",
	},
	{
		name: "where", reads: true, args: []argument{argType, argID.orNone()}, timeout: 10 * time.Second, run: where,
		about: "Prints the home of an entity, active or not: its shard, the member and the epoch, and why the\ncoordinator chose the member. ID is as on the wire: the string itself, or an integer in decimal.\nOf a singleton, which has no ID, it prints the member that runs it.",
	},
	{
		name: "counters", reads: true, timeout: 10 * time.Second, run: counters,
		about: "Lists the counters of all members, by reason, without those that are 0. They count from the start\nof each process.",
	},
	{
		name: "stats", reads: true, timeout: time.Minute, run: stats,
		about: "Counts the turns of all members for some seconds and prints their rates by member and by type, and then\nthe counters. P99 is the time within which 99 of 100 turns ended, at most an eighth too high.",
		flags: func(f *flag.FlagSet, o *options) {
			f.DurationVar(&o.every, "every", 3*time.Second, "`time` in which turns are counted")
		},
	},
	{
		name: "entity", reads: true, args: []argument{argType, argID}, timeout: 10 * time.Second, run: entity,
		about: "Prints what is known of an entity: its home and the reason for it, the turn that it runs and the calls\nthat wait for it, its shard, its last failed calls, and the lines about it in the logs of the members.\nOf each entity its home keeps the last 5 failed calls for an hour, of up to 1,024 entities, without\narguments and texts of errors. The state of a passivated durable entity is read from the store.",
		flags: func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.showState, "state", false, "show its state as JSON, without secrets; needs the right of an operator, and members log each look")
		},
	},
	{
		name: "entities", reads: true, args: []argument{argType}, timeout: time.Minute, run: entities,
		about: "Lists the ids of a type's entities over all shards, one a line, in the order of their bytes as on the\nwire. Of a durable type these are all that have committed a change and not ended, of another type those\nin the memory of members, active or passivated. An id with bytes that are no text is quoted as in Go,\nand -prefix and -after take that form, too. The last line says whether there are more.",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.list.Prefix, "prefix", "", "list ids that begin with this `text`")
			f.StringVar(&o.list.After, "after", "", "list ids above this `id`")
			f.IntVar(&o.list.Limit, "limit", 1000, "list at most this `number` of ids; 0: all")
			f.BoolVar(&o.list.Active, "active", false, "list entities that are active now")
			f.StringVar(&o.list.Where, "where", "", "list entities of a durable type whose field tagged index has a value, as `Field=value`; times as\n2006-01-02T15:04:05Z")
		},
	},
	{
		name: "reminders", args: []argument{argType, argID.orNone()}, timeout: time.Minute, run: entityReminders,
		about: "Lists the reminders of an entity, or changes one. Cancelling a reminder, or running one again that was\ngiven up, takes the right of an operator. Without an ID it lists the entities of the type that have reminders to\nrun, each with the earliest time at which one is due, in the order of these times: late ones are first.",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.cancel, "cancel", "", "cancel the reminder of this `name`")
			f.IntVar(&o.list.Limit, "limit", 1000, "without an ID, list at most this `number` of entities; 0: all")
			f.StringVar(&o.retry, "retry", "", "run the reminder of this `name` again, which was given up")
			f.BoolVar(&o.pause, "pause", false, "without an ID, have no reminder of the durable type run until -resume, also after a restart of all nodes")
			f.BoolVar(&o.resume, "resume", false, "without an ID, end a pause")
		},
	},
	{
		name: "moves", reads: true, timeout: 10 * time.Second, run: moves,
		about: "Lists the moves of shards under way, how far they are and why they began, and those that have ended\nlately, with the reason if one was given up.",
		flags: func(f *flag.FlagSet, o *options) {
			f.DurationVar(&o.since, "since", 10*time.Minute, "list moves that ended in the `time` before now")
		},
	},
	{
		name: "events", run: events,
		about: "Prints the log lines of all members from level info on, and the coordinator's decisions, in the order\nof time. A line that several members have is printed once. Members keep the latest 2,048 lines, and as many\ndecisions about single shards.",
		flags: func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.follow, "f", false, "go on with the lines that follow, until interrupted")
			f.StringVar(&o.at, "at", "", "print lines of the two minutes before and after a `time`: 02:14, \"2026-11-24 02:14\", or 30m before now")
			f.StringVar(&o.begin, "since", "", "print lines from a `time` on (default all that are kept)")
			f.StringVar(&o.until, "until", "", "print lines up to a `time`")
			f.TextVar(&o.level, "level", slog.LevelInfo, "print lines of this `level` or above: info, warn or error")
			f.StringVar(&o.grep, "grep", "", "print lines with this `text`, or of members whose name begins with it")
		},
	},
	{
		name: "top", run: top,
		about: "Prints the most frequent turns of some seconds by method, the busiest entities and callers, and turns\nthat run for more than 100ms. Entities and callers are from a sample of the last 5 to 10 seconds; rates of\nrare ones may be too high.",
		flags: func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.follow, "f", false, "print it again and again, until interrupted")
			f.DurationVar(&o.every, "every", 3*time.Second, "`time` in which turns are counted")
			f.IntVar(&o.rows, "rows", 10, "`number` of lines for methods, entities, callers and turns each")
		},
	},
	{
		name: "dashboard", run: serveDashboard,
		about: "Serves a page that shows the cluster live: health, members, shards and their moves, load, log lines,\nand the story of an entity. It has no authentication, so it listens at a loopback address unless told\notherwise; to put it behind your own, mount package runtime/admin/dashboard. It prints its address.",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.listen, "listen", "127.0.0.1:8181", "`address` to serve at; port 0 chooses one")
			f.BoolVar(&o.showState, "state", false, "show the state of entities that are looked for, without secrets, and log each look to stderr; needs the\nright of an operator")
		},
	},
	{
		name: "doctor", reads: true, timeout: 20 * time.Second, run: doctor,
		about: "Checks the health of all members, their clocks, versions, contracts, rights and store, the broker's\nmax_payload, and JetStream: the account's limits, and for each stream of the store its leader, its\nreplicas and its size. It prints what to do about faults. The exit code is 1 if there is one. JetStream\nis asked with the operator's own rights (shardctl permissions reader -store).",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.store, "store", "", "`name` of the store whose streams are checked (default as the members have it)")
		},
	},
	{
		name: "call", args: []argument{argType, argMethod, argCallee, argJSON}, timeout: 10 * time.Second, alone: call,
		about: "Calls a method of an entity through a member with Config.Gateway, with arguments as JSON, and prints\nthe results as JSON. The ID of a singleton is singleton, that of a pool the number of an instance or any. The caller's name\nis the value of -name, by default any: see shardctl permissions gateway.",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.command, "command", "", "idempotency `key` of a call to a durable type: calls with the key run once")
		},
	},
	{
		name: "pin", args: []argument{argType, argID, argNode.orNone()}, timeout: 10 * time.Second, run: pin,
		about: "Pins the shard of an entity to a member, for good: the shard moves there, and stays\nas long as the member hosts the type. All entities of the shard move with it.",
		flags: func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.withdraw, "withdraw", false, "withdraw the pin: the type's allocation places the shard again")
		},
	},
	{
		name: "move", args: []argument{argShard, argNode}, timeout: 10 * time.Second, run: move,
		about: "Moves a shard to a member, once: it is not pinned, so the type's allocation may move it again. LeastShards\ndoes that to give all members equally many shards; pin keeps the shard there. TYPE/SHARD is as shardctl moves and load print it.",
	},
	{
		name: "pool", args: []argument{argType, argCount}, timeout: 10 * time.Second, run: pool,
		about: "Lists the instances of a pool with their members, and why there are so many. With N it asks for N\ninstances, within the pool's bounds, in place of what its load needs; 0 lets the load decide again.\nThe number survives a change of the coordinator, but not a stop of all members at once.",
	},
	{
		name: "rebalance", timeout: 10 * time.Second, run: rebalance,
		about: "Has the coordinator look at once which shards should move, also at those whose moves were given up a\nmoment ago, and prints how many begin to move. It does so by itself whenever members come and go.",
	},
	{
		name: "pause", timeout: 10 * time.Second, run: pause,
		about: "Has no shards move for balance until resume. Moves under way end. Shards without a home still get\none, members that leave still give theirs away, and pin still moves shards. The pause survives a\nchange of the coordinator, but not a stop of all members at once.",
	},
	{
		name: "resume", timeout: 10 * time.Second, run: resume,
		about: "Ends a pause of rebalancing.",
	},
	{
		name: "drain", args: []argument{argNode}, timeout: 10 * time.Minute, run: drain,
		about: "Makes a member leave, as leave does, and prints how many shards it still has while it gives them away.",
	},
	{
		name: "processes", reads: true, timeout: 10 * time.Second, run: processes,
		about: "Lists the processes of the members: the release of shardgen, how long they run, their memory (of the heap,\nand all that the Go runtime has of the system) with GOMEMLIMIT, GOMAXPROCS, goroutines, and whether\nthey are ready. With -json also program, Go version and start.",
	},
	{
		name: "clients", reads: true, timeout: 10 * time.Second, run: clients,
		about: "Lists the processes outside the cluster that call entities, and the members with which each has a session. A\nsession lasts until the client ends. A member names at most 1,000 clients.",
	},
	{
		name: "load", reads: true, timeout: 10 * time.Second, run: load,
		about: "Lists how many processors each member has used in its last 10 s, of how many, with its zone, the share of\ngarbage collection, the share of GOMEMLIMIT, and the three shards that use most. -json has ten of them.",
	},
	{
		name: "wait", timeout: 2 * time.Minute, run: waitSettled,
		about: "Waits until the cluster is healthy (shardctl status), its members agree, and no shard moves, for two\nseconds without a break. Until then it prints what it waits for. The exit code is 1 if that takes longer\nthan -timeout.",
	},
	{
		name: "dump", args: []argument{argNode}, timeout: 10 * time.Second, run: dump,
		about: "Prints the stacks of all goroutines of a member's process, as the Go runtime does. It stops the process for\nsome milliseconds, and needs the right of an operator. A long dump is clipped to half of the broker's\nmax_payload.",
	},
	{
		name: "passivate", args: []argument{argType, argID}, timeout: 20 * time.Second, run: passivate,
		about: "Passivates an active entity: its stop hook runs, and its state is kept until the next call activates it\nagain. It fails while a call of the entity is under way. It needs the right of an operator.",
	},
	{
		name: "members", reads: true, timeout: 10 * time.Second, run: members,
		about: "Lists the members, the oldest first, as one of them sees the cluster, and where each\nsingleton runs.",
	},
	{
		name: "join", args: []argument{argNode}, timeout: 60 * time.Second, run: join,
		about: "Commands the process of that name, which was started with Config.Membership.JoinByCommand, to join,\nand waits until it is up. A first node founds the cluster.",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.through, "through", "", "comma-separated `names` of nodes to join through (default: the Seeds of its config)")
		},
	},
	{
		name: "leave", args: []argument{argNode}, timeout: 2 * time.Minute, run: leave,
		about: "Makes a member give its shards and their state to the others, leave and stop, and waits\nuntil it is no longer a member.",
	},
	{
		name: "down", args: []argument{argNode}, timeout: 10 * time.Second, run: down,
		about: "Downs a member. Its shards are then given to other members: make sure that its process\nhas stopped. A member that is up and reachable is refused.",
		flags: func(f *flag.FlagSet, o *options) {
			f.BoolVar(&o.force, "force", false, "down it although it is up and reachable: its process has certainly stopped")
		},
	},
	{
		name: "state", args: []argument{argType, argID.orNone()}, timeout: 10 * time.Second, run: state,
		about: "Without ID, lists the entities of a type whose state their nodes could not read when they were\ncalled. With ID, prints the entity's state; with -from or -drop sets it, unless it is active.",
		flags: func(f *flag.FlagSet, o *options) {
			f.StringVar(&o.out, "o", "", "write the encoded state to `file`: a message as shardgen contract proto describes it")
			f.StringVar(&o.from, "from", "", "replace the state by the content of `file`; a state that cannot be read is refused")
			f.BoolVar(&o.drop, "drop", false, "drop the state: the entity's next call finds it fresh")
		},
	},
}
