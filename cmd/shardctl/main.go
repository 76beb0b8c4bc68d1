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
// shardctl -h lists the commands, and shardctl COMMAND -h the flags of one. The exit code is 0 if
// the command was carried out, 1 if it failed, and 2 if its arguments are wrong.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `usage: shardctl COMMAND -cluster NAME [flags] [ARGUMENT ...]

What is going on
  status                       report whether the cluster is healthy, and if not, why; the exit code is 1 then
  doctor                       check clocks, versions, contracts, rights and limits, with what to do about faults
  members                      list the members, and where singletons run, as one of them sees the cluster
  shards [TYPE]                list the shards by type and member, or each shard of a type
  moves                        list the moves of shards under way, and those that ended lately
  events                       print what happened lately, from the logs of all members; -f goes on
  top                          print the busiest methods, entities and callers; -f goes on
  stats                        print the load by member and type, and the counters
  clients                      list the client processes, with the members that they call
  load                         list the processors that each member uses, and its hottest shards
  processes                    list the release, memory and goroutines of each member's process
  wait                         wait until the cluster is healthy and no shard moves
  dashboard                    serve a page that shows all of this live
  counters                     list how often each member did something other than run a call directly

One entity
  where TYPE [ID]              print the home of an entity or a singleton, and the reason for it
  entity TYPE ID               print what is known of an entity: its home, state and log lines
  entities TYPE                list the ids of a type's entities
  reminders TYPE [ID]          list who has reminders; list those of an entity, cancel one, or run one again
  call TYPE METHOD ID [JSON]   call an entity through a gateway
  state TYPE [ID]              list the entities whose state cannot be read; print, replace or drop a state
  passivate TYPE ID            end an entity's activation; its next call activates it again
  pin TYPE ID [NODE]           pin the shard of an entity to a member, or withdraw the pin
  store COMMAND                list, verify, export, import, repair and delete durable entities (shardctl store -h)

Where shards live
  rebalance                    look now which shards should move
  pause                        have no shards move for balance until resume
  resume                       end a pause
  move TYPE/SHARD NODE         move a shard to a member, without a pin
  pool TYPE [N]                list the instances of a pool, or ask for N of them

Streams that members read (shard.Consume)
  feeds [FEED]                 list positions, and what holds a stream up
  dead FEED [LETTER]           list messages that were given up, or print or drop one
  requeue FEED [LETTER]        apply a dead letter again
  rewind FEED                  read a stream again from a position on
  replay FEED                  apply a stream again from a position on

Members
  join NODE                    tell a process that waits (Config.Membership.JoinByCommand) to join
  leave NODE                   make a member leave in order, and wait until it is gone
  drain NODE                   leave, with the number of shards that it still has
  down NODE                    down a member whose process has stopped
  dump NODE                    print the stacks of a member's goroutines

  permissions ROLE             print the NATS permissions of a worker, client, operator, reader or gateway caller
  completion SHELL             print the completion script for bash, zsh or fish
  man                          print this manual as a page for man
  version                      print the version of shardctl

NODE is a name, or name#incarnation where several have the name.
shardctl COMMAND -h lists a command's flags. NATS_URL, SHARD_CLUSTER and
SHARD_OPERATOR stand in for -nats, -cluster and -name.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
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
	for _, c := range feedCommands {
		if c.name == args[0] {
			return c.main(ctx, args[1:], env, stdout, stderr)
		}
	}
	switch args[0] {
	case "store":
		return runStore(ctx, args[1:], env, stdout, stderr)
	case "permissions":
		return runPermissions(args[1:], env, stdout, stderr)
	case "completion":
		return runCompletion(args[1:], stdout, stderr)
	case "man":
		return exitCode(stderr, "man", nil, func() error { return printMan(stdout) })
	case "version", "-version", "--version":
		return exitCode(stderr, "version", nil, func() error { return version(stdout) })
	case completeCommand:
		return runComplete(ctx, args[1:], env, stdout)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	if strings.HasPrefix(args[0], "-") {
		fmt.Fprintf(stderr, "shardctl: the command comes first, and then its flags, as in shardctl members %s (shardctl -h lists the commands)\n", args[0])
		return exitUsage
	}
	if near := nearest(args[0], names()); near != "" {
		fmt.Fprintf(stderr, "shardctl: unknown command %q: did you mean %s? (shardctl -h lists the commands)\n", args[0], near)
		return exitUsage
	}
	fmt.Fprintf(stderr, "shardctl: unknown command %q\n\n%s", args[0], usage)
	return exitUsage
}

// names returns the names of all commands.
func names() []string {
	all := []string{"store", "permissions", "completion", "man", "version", "help"}
	for _, c := range commands {
		all = append(all, c.name)
	}
	for _, c := range feedCommands {
		all = append(all, c.name)
	}
	return all
}

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)
