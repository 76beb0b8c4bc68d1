package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

const storeUsage = `usage: shardctl store COMMAND [flags] [TYPE [ID]]

  list                list the types in the store, with their shards, entities and sizes
  list TYPE           list the largest entities of a type, with their sizes
  verify [TYPE]       read all heads, logs and records, and say what the store cannot decode
  show TYPE ID        print an entity
  table CLUSTER       print the membership table of a cluster
  export [TYPE [ID]]  write entities as JSON, one a line
  import              read what export wrote, and write it to the store
  repair TYPE ID      replace the state of an entity, or drop it
  repair TYPE -shard N
                      replace a whole shard, or drop what cannot be decoded of it
  delete TYPE -force  delete a type for ever; -follower: one follower's position
  clear CLUSTER       delete a cluster's remembered ids, leases, coordinator's terms or
                      membership table

import, repair and delete are refused while a member of the cluster hosts the type
(not delete -follower), and clear while any process of the cluster runs.
shardctl store COMMAND -h lists a command's flags. NATS_URL stands in for -nats.
`

// A storeCommand is a command of shardctl store.
type storeCommand struct {
	name, about string
	least, most int    // numbers of arguments
	argument    string // the name of the first; empty: TYPE
	second      string // the name of the second; empty: ID
	top         bool   // it is a command of shardctl, not of shardctl store
	creates     bool
	flags       func(*flag.FlagSet, *storeOptions)
	run         func(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error
}

var storeCommands = []storeCommand{
	{
		name: "list", most: 1, run: storeList,
		about: "Lists the types in the store, or the largest entities of one type with the bytes of their states and of the events that follow them.\nNodes may run meanwhile.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			f.IntVar(&o.most, "n", 20, "largest `number` of entities of a type to list")
		},
	},
	{
		name: "verify", most: 1, run: storeVerify,
		about: "Reads all heads, logs and records, of one type or of all, and prints what cannot be decoded.\nThe exit code is 1 if there is any. It checks the store's own format, with its checksums, and not the states in it, whose fields\nonly the program of the type knows: shardctl state TYPE lists those that calls could not read. Nodes may run meanwhile.",
	},
	{name: "show", least: 2, most: 2, run: storeShow, about: "Prints an entity, its version and its encoded state. Nodes may run meanwhile."},
	{
		name: "table", least: 1, most: 1, argument: "CLUSTER", run: storeTable,
		about: "Prints the rows of a cluster's membership table in this store, also while no member runs, with the votes against each member\nand the time since it last wrote that it is alive.",
	},
	{
		name: "export", most: 2, run: storeExport,
		about: "Writes entities as JSON, one a line. Before them come a line for each type, and lines with the image of each shard, which has everything.\nThe state is the protobuf message that shardgen contract proto describes, in base64. Nodes may run meanwhile: each entity is then\nas it was at some moment of the export.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			f.StringVar(&o.out, "o", "", "write to `file` (default: standard output)")
		},
	},
	{
		name: "import", run: storeImport, creates: true,
		about: "Reads what export wrote and writes it to shards of the store that were never used, or only imported. A file that is not complete is\nrefused before anything is written. Shards that nodes have used are refused, because their ids of commands, tells and journals cannot\nbe replaced: -states writes only the states there. An entity that exists is refused. Repeat an import that failed with -replace.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			f.StringVar(&o.from, "from", "", "read from `file`")
			f.BoolVar(&o.replace, "replace", false, "overwrite entities that are there")
			f.BoolVar(&o.pause, "pause", false, "have no reminder of the types run before shardctl reminders TYPE -resume")
			f.BoolVar(&o.states, "states", false, "write only the states of entities to shards that were used: no ids of commands, tells and journals")
			f.IntVar(&o.replicas, "replicas", 0, "`number` of servers that keep each stream that is created (default 1)")
			f.IntVar(&o.partitions, "partitions", 0, "`number` of pairs of streams of a type that is created (default 4)")
		},
	},
	{
		name: "repair", least: 1, most: 2, run: storeRepair,
		about: "Replaces the state of an entity, also of one whose record cannot be decoded, or drops it. With -shard and no ID it does so with a whole shard,\nalso if its head, its log or its table cannot be decoded.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			f.StringVar(&o.from, "from", "", "the new state is the one line for the entity in `file`, as export writes it")
			f.BoolVar(&o.drop, "drop", false, "drop the entity: its next call finds it fresh; of a shard: drop what cannot be decoded")
			f.IntVar(&o.shard, "shard", 0, "`number` of a shard, to be replaced as a whole by its image in the file of -from, which is older")
		},
	},
	{
		name: "delete", least: 1, most: 1, run: storeDelete,
		about: "Deletes a type with all its entities and the positions of its named followers, permanently. It needs -force. With -follower it deletes the position of one named follower alone, which must not run.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			f.BoolVar(&o.force, "force", false, "delete the type: all its entities are lost, except those of an export")
			f.StringVar(&o.follower, "follower", "", "delete only the position of the follower of that `name`: it begins anew, and keep=followed keeps nothing for it")
		},
	},
	{
		name: "clear", least: 1, most: 1, argument: "CLUSTER", run: storeClear,
		about: "Deletes what the runtime itself keeps for a cluster: the ids of remembered entities, leases, terms of the coordinator, the membership table.\nRefused while a process of the cluster runs, and -terms also while the store has a durable type of the cluster.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			f.BoolVar(&o.remembered, "remembered", false, "delete the ids of remembered entities: none is activated again without a call")
			f.BoolVar(&o.leases, "leases", false, "delete the leases of singletons and of downing; their tokens then begin with 1 again")
			f.BoolVar(&o.table, "table", false, "delete all rows of the membership table")
			f.BoolVar(&o.terms, "terms", false, "delete the record of the coordinator's terms, which then begin with 1 again")
		},
	},
}

func runStore(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, storeUsage)
		return exitUsage
	}
	i := slices.IndexFunc(storeCommands, func(c storeCommand) bool { return c.name == args[0] })
	switch {
	case i >= 0:
		return storeCommands[i].main(ctx, args[1:], env, stdout, stderr)
	case slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]):
		fmt.Fprint(stdout, storeUsage)
		return exitOK
	}
	fmt.Fprintf(stderr, "shardctl store: unknown command %q\n\n%s", args[0], storeUsage)
	return exitUsage
}

func (c storeCommand) main(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	o, err := c.parse(args, env, stderr)
	return exitCode(stderr, c.title(), err, func() error {
		return printBy(o.form, stdout, func(w io.Writer) error { return c.do(ctx, o, w) })
	})
}

func (c storeCommand) title() string {
	if c.top {
		return c.name
	}
	return "store " + c.name
}

func (c storeCommand) arguments() (text string) {
	for i := c.most - 1; i >= 0; i-- {
		text = []string{cmp.Or(c.argument, "TYPE"), cmp.Or(c.second, "ID")}[i] + text
		if i >= c.least {
			text = "[" + text + "]"
		}
		text = " " + text
	}
	return text
}

func (c storeCommand) parse(args []string, env func(string) string, stderr io.Writer) (*storeOptions, error) {
	var o storeOptions
	f := c.flagSet(&o, env)
	places := []*string{&o.kind, &o.id}[:c.most]
	given, err := parseAmong(f, args, places, stderr, c.title()+" [flags]"+c.arguments(), c.about)
	switch {
	case err != nil:
	case given < c.least:
		err = errors.New([]string{"say which " + strings.ToLower(cmp.Or(c.argument, "TYPE")), "say which entity"}[given])
	case c.name == "import" && o.from == "":
		err = errors.New("-from is missing: name the file")
	case c.name == "repair" && (o.shard != 0) == (given == 2):
		err = errors.New("give the id of an entity or -shard, and not both")
	case c.name == "repair" && o.drop == (o.from != ""):
		err = errors.New("give one of -from and -drop")
	case c.name == "delete" && !o.force && o.follower == "":
		err = fmt.Errorf("all entities of %s would be lost: say -force to delete them", o.kind)
	case (c.name == "rewind" || o.replay) && o.to == 0:
		err = errors.New("-to is missing: give a position (1 is the first message)")
	case c.name == "list" && o.most < 1:
		err = fmt.Errorf("-n is %d: want 1 or more", o.most)
	case c.name == "clear" && !o.remembered && !o.leases && !o.terms && !o.table:
		err = errors.New("nothing to clear: give -remembered, -leases, -terms or -table")
	case o.timeout <= 0:
		err = fmt.Errorf("-timeout is %v: want more than 0", o.timeout)
	default:
		err = o.complete()
	}
	return &o, err
}

func (c storeCommand) flagSet(o *storeOptions, env func(string) string) *flag.FlagSet {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	o.connection.flags(f, env)
	f.StringVar(&o.store, "store", "shardgen", "`name` of the store, as in natsstore.Config.Name")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "bound of the whole command")
	jsonFlags(f, &o.json, &o.form)
	if c.flags != nil {
		c.flags(f, o)
	}
	return f
}

func (c storeCommand) do(ctx context.Context, o *storeOptions, w io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the command did not end within %v (raise -timeout?)", o.timeout))
	defer cancel()
	s, err := natsstore.Open(ctx, o.url, natsstore.Config{
		Name: o.store, NoCreate: !c.creates, Replicas: o.replicas, Partitions: o.partitions, ConnectOptions: o.connection.options(),
	})
	if err != nil {
		return notOpened(ctx, o, err)
	}
	defer s.Close()
	return c.run(ctx, s, o, w)
}

type storeOptions struct {
	connection
	store                        string
	timeout                      time.Duration
	json                         bool
	form                         *template.Template
	kind, id                     string
	out, from                    string
	drop, replace, states, pause bool
	force                        bool
	shard                        int
	replicas, partitions         int
	most                         int // entities that list prints
	remembered                   bool
	leases, terms, table         bool
	follower                     string
	all                          bool   // letters that requeue applies again
	to                           uint64 // position of rewind and replay
	replay                       bool   // apply messages again
}

// membersOf returns a cluster's members, or an empty view if no process answers.
func membersOf(ctx context.Context, o *storeOptions, cluster string) (admin.View, error) {
	v, err := askMembers(ctx, o, cluster)
	switch {
	case errors.Is(err, nats.ErrPermissionViolation): // a reader's rights alone are not enough
		err = fmt.Errorf("%w: shardctl permissions store -cluster %s -store %s -name %s prints all rights of shardctl store",
			err, cluster, o.store, cmp.Or(o.name, defaultName))
	case err != nil:
		err = fmt.Errorf("%w (stop these processes)", err)
	}
	return v, err
}

func askMembers(ctx context.Context, o *storeOptions, cluster string) (v admin.View, err error) {
	c, err := o.dial(ctx, cluster)
	if err != nil {
		return v, err
	}
	defer func() { _ = c.Close() }() // everything was answered
	if v, err = c.Members(ctx); errors.Is(err, admin.ErrNoCluster) {
		err = nil
	}
	return v, err
}

// refuseHosted fails if a member hosts the type.
func refuseHosted(ctx context.Context, o *storeOptions, kind string, t durablehost.Type) error {
	v, err := membersOf(ctx, o, t.Cluster)
	if err != nil {
		return fmt.Errorf("type %s: ask the members whether they host it: %w", kind, err)
	}
	host := ""
	for _, m := range v.Members {
		if slices.Contains(m.Hosts, kind) {
			host = m.Name
			break
		}
	}
	for _, s := range v.Singletons {
		if s.Kind == kind && len(s.Hosts) > 0 {
			host = s.Hosts[0].Name
		}
	}
	if host != "" {
		return fmt.Errorf("type %s is hosted by %s of cluster %s: stop all nodes that host it first", kind, host, t.Cluster)
	}
	return nil
}

// notOpened returns the error for a store that has no streams. The error lists the visible stores,
// because a wrong -store is likelier than a lost store.
func notOpened(ctx context.Context, o *storeOptions, err error) error {
	if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	names, there, listErr := storesAt(ctx, o)
	switch {
	case listErr != nil:
		return fmt.Errorf("%w (is -store %s right?)", err, o.store)
	case there:
		return err
	case len(names) == 0:
		return fmt.Errorf("no store %s at %s, and no other (check -nats; -store is natsstore.Config.Name)", o.store, o.url)
	}
	return fmt.Errorf("no store %s at %s, which has: %s (give one with -store; it is natsstore.Config.Name)",
		o.store, o.url, strings.Join(names, ", "))
}

func storesAt(ctx context.Context, o *storeOptions) (names []string, there bool, err error) {
	js, err := dialJetStream(ctx, &o.connection)
	if err != nil {
		return nil, false, err
	}
	defer js.conn.Close()
	list, err := js.streams(">")
	if err != nil {
		return nil, false, err
	}
	for _, s := range list.Streams {
		for _, subject := range s.Config.Subjects {
			there = there || strings.HasPrefix(subject, o.store+".")
			if name, is := strings.CutSuffix(subject, ".k.>"); is && s.Config.Name == name+"_keys" { // the small records of a store
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, there, nil
}
