package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

// nearLimit is the share of a limit of JetStream from which doctor complains.
const nearLimit = 0.8

// examineJetStream judges JetStream and the streams of the members' store, as far as the operator's
// rights go.
func examineJetStream(ctx context.Context, o *options, facts []admin.NodeFact) []finding {
	name, replicas, stored := storeOf(facts)
	if o.store != "" {
		name = o.store
	}
	switch {
	case name == "" && !stored:
		return []finding{skipped("jetstream", "not checked: no member that answers has a store", "")}
	case name == "":
		return []finding{skipped("jetstream", "not checked: the members do not say that their store is on JetStream", "give its name with -store, if it is")}
	}
	js, err := dialJetStream(ctx, &o.connection)
	if err != nil {
		return []finding{jetStreamWrong(o, err)}
	}
	defer js.conn.Close()
	account, err := js.account()
	if err != nil {
		return []finding{jetStreamWrong(o, err)}
	}
	all := examineAccount(account)
	list, err := js.streams(name + ".>")
	if err != nil {
		return append(all, jetStreamWrong(o, err))
	}
	return append(all, examineStreams(name, replicas, list)...)
}

// storeOf is the store that members have: the name and the largest number of replicas in their configs.
func storeOf(facts []admin.NodeFact) (name string, replicas int, stored bool) {
	for _, f := range facts {
		stored = stored || f.Store
		replicas = max(replicas, f.StoreReplicas)
		if f.StoreName != "" {
			name = f.StoreName
		}
	}
	return name, replicas, stored
}

// jetStreamWrong is the finding of a question that JetStream has not answered.
func jetStreamWrong(o *options, err error) finding {
	var refused *jetStreamError
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return skipped("jetstream", "not checked: "+err.Error(),
			fmt.Sprintf("grant the rights of shardctl permissions reader -cluster %s -name NAME -store STORE, and give -name", o.cluster))
	case errors.Is(err, errNoJetStream):
		return wrong("jetstream", err.Error(), "enable it at the servers (jetstream { store_dir: … }): calls of durable entities wait for it")
	case errors.As(err, &refused):
		return wrong("jetstream", err.Error(), "enable it for the account of the members; of a cluster of servers, more than half must run")
	}
	return wrong("jetstream", err.Error(), "look at the servers: of a cluster, more than half must run, and one must have room on its disk")
}

// examineAccount compares the use of an account with its limits, which the members' streams share with
// all others of the account.
func examineAccount(a jetstream.AccountInfo) (found []finding) {
	tiers := map[string]jetstream.Tier{"": a.Tier}
	if len(a.Tiers) > 0 {
		tiers = a.Tiers
	}
	for _, name := range clusterview.SortedKeys(tiers) {
		t, of := tiers[name], "the account"
		if name != "" {
			of += "'s tier " + name
		}
		if near(t.Store, t.Limits.MaxStore) {
			found = append(found, wrong("jetstream", fmt.Sprintf("%s uses %s of %s on disk", of, size(t.Store), size(uint64(t.Limits.MaxStore))),
				"raise max_file of the account, or make room: at the limit, no durable entity commits"))
		}
		if near(uint64(t.Streams), int64(t.Limits.MaxStreams)) {
			found = append(found, wrong("jetstream", fmt.Sprintf("%s has %d of %d streams", of, t.Streams, t.Limits.MaxStreams),
				"raise max_streams of the account: at the limit, no further durable type can be hosted"))
		}
	}
	return fine("jetstream", fmt.Sprintf("it answers, and the account is below its limits (%s on disk, %d streams)", size(a.Store), a.Streams), found)
}

// near reports whether a limit is nearly reached. A limit that is not above 0 is none.
func near(used uint64, limit int64) bool {
	return limit > 0 && float64(used) >= nearLimit*float64(limit)
}

// examineStreams judges the streams of a store. replicas is how many the members' configs ask for; 0:
// they do not say.
func examineStreams(store string, replicas int, list streamList) (found []finding) {
	complain := func(do, format string, args ...any) {
		found = append(found, wrong("streams", fmt.Sprintf(format, args...), do))
	}
	for _, name := range slices.Sorted(slices.Values(list.Missing)) {
		complain("start the servers that have its replicas: until then calls of its entities wait", "%s has no leader, or it does not answer", name)
	}
	for _, name := range clusterview.SortedKeys(list.Offline) {
		complain("upgrade the servers that have its replicas", "%s is offline: %s", name, list.Offline[name])
	}
	var bytes uint64
	for _, s := range list.Streams {
		name := s.Config.Name
		bytes += s.State.Bytes
		if s.Cluster != nil && s.Cluster.Leader == "" {
			complain("start the servers that have its replicas: until then calls of its entities wait", "%s has no leader", name)
		}
		if s.Config.Replicas < replicas {
			complain(fmt.Sprintf("nats stream edit %s --replicas %d: a stream that is there keeps its own number", name, replicas),
				"%s has %d replicas, and Config.Replicas of the members' store is %d", name, s.Config.Replicas, replicas)
		}
		for _, what := range lagging(s) {
			complain("start that server, or look at its disk and its network", "%s: %s", name, what)
		}
		if near(s.State.Bytes, s.Config.MaxBytes) {
			complain(fmt.Sprintf("nats stream edit %s --max-bytes -1: at the limit, its entities commit nothing", name),
				"%s has %s of %s", name, size(s.State.Bytes), size(uint64(s.Config.MaxBytes)))
		}
		if near(s.State.Msgs, s.Config.MaxMsgs) {
			complain(fmt.Sprintf("nats stream edit %s --max-msgs -1: at the limit, its entities commit nothing", name),
				"%s has %d of %d messages", name, s.State.Msgs, s.Config.MaxMsgs)
		}
	}
	if len(list.Streams) == 0 && len(found) == 0 {
		complain("give the store's name with -store (natsstore.Config.Name), and a user of the members' account", "there is no stream of %s in this account", store)
	}
	return fine("streams", fmt.Sprintf("%d of %s, with %s: all have a leader and their replicas, below their limits", len(list.Streams), store, size(bytes)), found)
}

// lagging says which replicas of a stream are missing.
func lagging(s *jetstream.StreamInfo) (missing []string) {
	if s.Cluster == nil {
		return nil
	}
	for _, p := range s.Cluster.Replicas {
		switch {
		case p.Offline:
			missing = append(missing, fmt.Sprintf("its replica at %s is offline, %d behind", p.Name, p.Lag))
		case !p.Current:
			missing = append(missing, fmt.Sprintf("its replica at %s is %d behind", p.Name, p.Lag))
		}
	}
	if is := len(s.Cluster.Replicas) + 1; s.Cluster.Leader != "" && is < s.Config.Replicas {
		missing = append(missing, fmt.Sprintf("it has %d of its %d replicas", is, s.Config.Replicas))
	}
	return missing
}

// size is a number of bytes for people.
func size(bytes uint64) string {
	const units = "kMGTPE"
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1000, 0
	for value >= 1000 {
		value, unit = value/1000, unit+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + units[unit:unit+1] + "B"
}
