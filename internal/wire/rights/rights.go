// Package rights lists the NATS permissions that each kind of process needs, and no more. See ADR
// 0014: the broker restricts each process to its own subjects, and members trust only the subject
// to name a message's sender.
package rights

import (
	"fmt"
	"slices"
	"strings"
)

// Rights are the subjects that a user may publish and subscribe to. A subscription with a queue
// group has the form "subject queue".
type Rights struct{ Publish, Subscribe []string }

// Worker returns the rights of a member of the cluster. If store is not empty, it is the name of
// the member's store (natsstore.Config.Name), which the member may also read and write.
func Worker(cluster, store string) Rights {
	r := WorkerNoCreate(cluster, store)
	if store != "" {
		r.Publish = append(r.Publish, js("STREAM.CREATE.*")...)
	}
	return r
}

// WorkerNoCreate returns the rights of a member whose store has natsstore.Config.NoCreate, because
// the streams are created elsewhere.
func WorkerNoCreate(cluster, store string) Rights {
	of := names(cluster)
	r := Rights{
		Publish:   of("m.>", "r.c.>", "r.o.>"),
		Subscribe: append(of("m.>", "c.>", "o.>", "r.m.>"), of("g.> gw")...),
	}
	r.Publish = append(r.Publish, "_INBOX.>") // answers to callers of the gateway
	if store == "" {
		return r
	}
	r.Publish = append(append(r.Publish, store+".>"), js("DIRECT.GET.*", "STREAM.MSG.GET.*", "STREAM.INFO.*", "STREAM.PURGE.*")...)
	r.Subscribe = append(r.Subscribe, "_INBOX.>")
	return r
}

// Publisher adds two rights to those of a member with a store: to publish on subjects, which may
// have wildcards (shard.Publish), and to find the streams with these subjects.
func Publisher(r Rights, subjects ...string) Rights {
	r.Publish = append(append(r.Publish, subjects...), js("STREAM.NAMES")...)
	return r
}

// Source adds the rights to read streams (shard.Consume, package natsstream).
func Source(r Rights, streams ...string) Rights {
	for _, s := range streams {
		r.Publish = append(r.Publish, js("STREAM.INFO."+s, "CONSUMER.CREATE."+s+".>", "CONSUMER.MSG.NEXT."+s+".>", "CONSUMER.DELETE."+s+".>")...)
	}
	if !slices.Contains(r.Subscribe, "_INBOX.>") {
		r.Subscribe = append(r.Subscribe, "_INBOX.>")
	}
	return r
}

// Store returns the rights of a user with that name who runs shardctl store. The user may read,
// write, create and delete the streams of a store. Like a Reader, the user may ask members whether
// they host a type.
func Store(cluster, name, store string) Rights {
	r := Reader(cluster, name)
	r.Publish = append(append(r.Publish, store+".>"), js(
		"DIRECT.GET.*", "STREAM.MSG.GET.*", "STREAM.INFO.*", "STREAM.PURGE.*", "STREAM.CREATE.*", "STREAM.LIST", "STREAM.DELETE.*")...)
	r.Subscribe = append(r.Subscribe, "_INBOX.>")
	return r
}

// Follower returns the rights of a client that follows events of a store. It may also write the
// store's small records, because the positions of named followers are there.
func Follower(cluster, name, store string) Rights {
	r := Client(cluster, name)
	r.Publish = append(append(r.Publish, store+".k.>"), js("DIRECT.GET.*", "STREAM.MSG.GET.*", "STREAM.INFO.*")...)
	r.Subscribe = append(r.Subscribe, "_INBOX.>")
	return r
}

// js returns the subjects of requests to the JetStream API; verbs are their ends, such as
// "STREAM.NAMES".
func js(verbs ...string) []string {
	for i := range verbs {
		verbs[i] = "$JS.API." + verbs[i]
	}
	return verbs
}

// Client returns the rights of a client (shard.Dial) with that Config.Name.
func Client(cluster, name string) Rights {
	of := names(cluster)
	return Rights{Publish: of("c." + name + ".>"), Subscribe: of("r.c." + name + ".>")}
}

// Operator returns the rights of an operator with this name who may command.
func Operator(cluster, name string) Rights {
	of := names(cluster)
	return Rights{Publish: of("o." + name + ".>"), Subscribe: of("r.o." + name + ".>")}
}

// Reader returns the rights of an operator with this name who may only read.
func Reader(cluster, name string) Rights {
	of := names(cluster)
	return Rights{Publish: of("o." + name + ".get.>"), Subscribe: of("r.o." + name + ".>")}
}

// Doctor extends the rights of an operator or reader with that name: it may also ask JetStream for
// the limits of the account and the state of its streams, but not read messages.
func Doctor(r Rights, name string) Rights {
	r.Publish = append(r.Publish, js("INFO", "STREAM.LIST")...)
	r.Subscribe = append(r.Subscribe, "_INBOX."+name+".>")
	return r
}

// Gateway returns the rights of a caller with that name that is not a Go process and calls through
// the gateway.
func Gateway(cluster, name string) Rights {
	return Rights{Publish: names(cluster)("g." + name + ".>"), Subscribe: []string{"_INBOX." + name + ".>"}}
}

func names(cluster string) func(...string) []string {
	return func(rest ...string) (all []string) {
		for _, r := range rest {
			all = append(all, "sh."+cluster+"."+r)
		}
		return all
	}
}

// Server returns the rights as the permissions of a user in the configuration file of a NATS
// server.
func (r Rights) Server() string {
	list := func(all []string) string {
		if len(all) == 0 {
			return `{ deny: ">" }` // an empty list would allow everything
		}
		quoted := make([]string, len(all))
		for i, s := range all {
			quoted[i] = fmt.Sprintf("%q", s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return fmt.Sprintf("permissions: {\n  publish: %s\n  subscribe: %s\n}\n", list(r.Publish), list(r.Subscribe))
}

// NSC returns the nsc command that gives the rights to the user of this name.
func (r Rights) NSC(user string) string {
	return fmt.Sprintf("nsc edit user %s \\\n  --allow-pub '%s' \\\n  --allow-sub '%s'\n", user, strings.Join(r.Publish, ","), strings.Join(r.Subscribe, ","))
}
