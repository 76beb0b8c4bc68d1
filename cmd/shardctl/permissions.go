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

	"github.com/shardgen/shardgen/internal/wire/rights"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

var roles = map[string]func(cluster, name, store string) rights.Rights{
	"worker": func(cluster, _, store string) rights.Rights { return rights.Worker(cluster, store) },
	"client": func(cluster, name, store string) rights.Rights {
		if store == "" {
			return rights.Client(cluster, name)
		}
		return rights.Follower(cluster, name, store)
	},
	"store": func(cluster, name, store string) rights.Rights {
		return rights.Store(cluster, cmp.Or(name, defaultName), store)
	},
	"operator": func(cluster, name, store string) rights.Rights {
		return withDoctor(rights.Operator(cluster, name), name, store)
	},
	"reader": func(cluster, name, store string) rights.Rights {
		return withDoctor(rights.Reader(cluster, name), name, store)
	},
	"gateway": func(cluster, name, _ string) rights.Rights { return rights.Gateway(cluster, name) },
	"source":  func(string, string, string) rights.Rights { return rights.Rights{} },
}

// withDoctor adds the rights to check JetStream, if there is a store.
func withDoctor(r rights.Rights, name, store string) rights.Rights {
	if store == "" {
		return r
	}
	return rights.Doctor(r, name)
}

const permissionsUsage = "permissions ROLE -cluster NAME [-name NAME] [-store NAME] [-no-create] [-publish SUBJECTS] [-consume STREAMS] [-nsc|-json]"

const permissionsAbout = `Prints the NATS permissions of a user, and needs no server. ROLE is one of

  worker    a member; -store adds the rights to that store, -no-create leaves out that to
            create streams (natsstore.Config.NoCreate), -publish adds the subjects of shard.Publish,
            -consume the streams of shard.Consume, if their sources connect as the same user
  source    a user of its own for natsstream.Open, which reads the streams -consume; needs no -cluster
  client    a process that only calls, whose Config.Name is -name; -store adds the rights to
            follow events of that store
  operator  shardctl -name NAME, with all commands
  reader    shardctl -name NAME, with the commands that change nothing; -store adds to this role
            and to operator the rights with which doctor checks JetStream
  gateway   a caller in another language, of that -name
  store     shardctl store -name NAME, for that -store of the cluster; without -name here and there
            it is ` + defaultName + ``

// A jsonRights is the output of permissions -json. Fields are added, never changed.
type jsonRights struct {
	Cluster   string   `json:"cluster"`
	Role      string   `json:"role"`
	Name      string   `json:"name,omitempty"`
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"` // "subject queue" if only subscriptions in that queue group are allowed
}

func runPermissions(args []string, env func(string) string, stdout, stderr io.Writer) int {
	return exitCode(stderr, "permissions", permissions(args, env, stdout, stderr), func() error { return nil })
}

func permissions(args []string, env func(string) string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("permissions", flag.ContinueOnError)
	cluster := f.String("cluster", env("SHARD_CLUSTER"), "`name` of the cluster")
	name := f.String("name", "", "`name` of the client, the operator or the gateway's caller")
	store := f.String("store", "", "`name` of the store (natsstore.Config.Name); default: it uses none")
	noCreate := f.Bool("no-create", false, "the streams of the worker's store are made by somebody else")
	subjects := f.String("publish", "", "`subjects` on which the worker's entities publish, separated by commas; they may have wildcards")
	streams := f.String("consume", "", "`streams` that the worker or source reads, separated by commas")
	asJSON := f.Bool("json", false, "print JSON")
	nsc := f.Bool("nsc", false, "print the command of nsc instead of a server's configuration")
	var role string
	_, err := parseAmong(f, args, []*string{&role}, stderr, permissionsUsage, permissionsAbout)
	switch {
	case err != nil:
		return err
	case role == "" || roles[role] == nil:
		return fmt.Errorf("name a role: %s", strings.Join(slices.Sorted(maps.Keys(roles)), ", "))
	case *cluster == "" && role != "source":
		return errors.New("say which -cluster")
	case role == "source" && *streams == "":
		return errors.New("-consume is missing: name the streams")
	case role == "source" && *store != "":
		return errors.New("-store is not valid for role source")
	case *streams != "" && role != "source" && role != "worker":
		return errors.New("-consume is valid only for roles worker and source")
	case role == "store" && *store == "":
		return errors.New("say which -store")
	case role == "worker" && *name != "":
		return errors.New("-name is not valid for role worker")
	case role != "worker" && role != "store" && role != "source" && *name == "":
		return errors.New("say which -name")
	case role == "gateway" && *store != "":
		return errors.New("-store is not valid for role gateway")
	}
	switch {
	case *noCreate && (role != "worker" || *store == ""):
		return errors.New("-no-create is valid only for role worker with a -store")
	case *subjects != "" && (role != "worker" || *store == ""):
		return errors.New("-publish is valid only for role worker with a -store")
	case *store == "sh":
		return errors.New("-store sh is reserved: clusters use the subjects sh.>")
	case *nsc && *asJSON:
		return errors.New("-nsc and -json: give one of them")
	case role == "gateway" && *name == "any":
		return errors.New("-name any is not valid for role gateway: its answers could go to every inbox (name the caller)")
	}
	if err := errors.Join(checkOptional("cluster", *cluster), checkOptional("user", *name), checkOptional("store", *store)); err != nil {
		return err
	}
	r := roles[role](*cluster, *name, *store)
	if *noCreate {
		r = rights.WorkerNoCreate(*cluster, *store)
	}
	if *subjects != "" {
		all := strings.Split(*subjects, ",")
		for _, subject := range all {
			if err := checkPattern(subject); err != nil {
				return err
			}
		}
		r = rights.Publisher(r, all...)
	}
	if *streams != "" {
		all := strings.Split(*streams, ",")
		for _, s := range all {
			if s == "" || strings.ContainsAny(s, ".*> \t") {
				return fmt.Errorf("-consume %s: %q is not the name of a stream", *streams, s)
			}
		}
		r = rights.Source(r, all...)
	}
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

// checkPattern checks a subject that may have wildcards.
func checkPattern(subject string) error {
	literal := strings.ReplaceAll(strings.ReplaceAll("."+subject, ".*", ".x"), ".>", ".x")
	if err := store.CheckSubject(literal[1:]); err != nil {
		return fmt.Errorf("-publish %s: %w", subject, err)
	}
	return nil
}

func checkOptional(what, name string) error {
	if name == "" {
		return nil
	}
	return transport.CheckName(what, name)
}
