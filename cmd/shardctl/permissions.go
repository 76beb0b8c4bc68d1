package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/rights"
	"github.com/shardgen/shardgen/transport"
)

// roles are the kinds of users, by name, with their rights.
var roles = map[string]func(cluster, name, store string) rights.Rights{
	"worker":   func(cluster, _, store string) rights.Rights { return rights.Worker(cluster, store) },
	"client":   func(cluster, name, _ string) rights.Rights { return rights.Client(cluster, name) },
	"operator": func(cluster, name, _ string) rights.Rights { return rights.Operator(cluster, name) },
	"reader":   func(cluster, name, _ string) rights.Rights { return rights.Reader(cluster, name) },
	"gateway":  func(cluster, name, _ string) rights.Rights { return rights.Gateway(cluster, name) },
}

const permissionsUsage = `usage: shardctl permissions ROLE -cluster NAME [-name NAME] [-store NAME] [-nsc|-json]

Prints the NATS permissions of a user, and needs no server. ROLE is one of

  worker    a member; -store adds the rights to that store
  client    a process that only calls, whose Config.Name is -name
  operator  shardctl -name NAME, with all commands
  reader    shardctl -name NAME, with the commands that change nothing
  gateway   a caller in another language, of that -name

`

// The JSON of permissions: lists of allowed subjects. Fields are added, never changed.
type jsonRights struct {
	Cluster   string   `json:"cluster"`
	Role      string   `json:"role"`
	Name      string   `json:"name,omitempty"`
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"` // "subject queue" where a queue group is allowed alone
}

// runPermissions carries out shardctl permissions.
func runPermissions(args []string, env func(string) string, stdout, stderr io.Writer) int {
	err := permissions(args, env, stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "shardctl permissions: %v (shardctl permissions -h)\n", err)
		return exitUsage
	}
	return exitOK
}

func permissions(args []string, env func(string) string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("permissions", flag.ContinueOnError)
	f.SetOutput(io.Discard) // runPermissions prints the error
	cluster := f.String("cluster", env("SHARD_CLUSTER"), "`name` of the cluster")
	name := f.String("name", "", "`name` of the client, the operator or the gateway's caller")
	store := f.String("store", "", "`name` of the worker's store (natsstore.Config.Name); default: it has none")
	asJSON := f.Bool("json", false, "print JSON")
	nsc := f.Bool("nsc", false, "print the command of nsc instead of a server's configuration")
	err := f.Parse(args)
	role := f.Arg(0)
	if err == nil && role != "" {
		err = f.Parse(f.Args()[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stderr, permissionsUsage)
		f.SetOutput(stderr)
		f.PrintDefaults()
		return err
	case err != nil:
		return err
	case role == "" || roles[role] == nil:
		return fmt.Errorf("say for which role: %s", strings.Join(slices.Sorted(maps.Keys(roles)), ", "))
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	case *cluster == "":
		return errors.New("say which -cluster")
	case role == "worker" && *name != "":
		return errors.New("-name: a worker has all names")
	case role != "worker" && *name == "":
		return errors.New("say which -name")
	case role != "worker" && *store != "":
		return errors.New("-store: only workers use the store")
	case *nsc && *asJSON:
		return errors.New("-nsc and -json: give one of them")
	case role == "gateway" && *name == "any":
		return errors.New("-name any: its answers may go to every inbox; name the caller")
	}
	if err := errors.Join(transport.CheckName("cluster", *cluster), checkOptional("user", *name), checkOptional("store", *store)); err != nil {
		return err
	}
	r := roles[role](*cluster, *name, *store)
	if *asJSON {
		return printJSON(stdout, jsonRights{*cluster, role, *name, r.Publish, r.Subscribe})
	}
	if *nsc {
		fmt.Fprint(stdout, r.NSC(cmp.Or(*name, role)))
		return nil
	}
	fmt.Fprint(stdout, r.Server())
	return nil
}

func checkOptional(what, name string) error {
	if name == "" {
		return nil
	}
	return transport.CheckName(what, name)
}
