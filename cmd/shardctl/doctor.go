package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // how to mend it
	// Skipped means that the check could not be made, so no fault is known.
	Skipped bool `json:"skipped,omitempty"`
}

func good(check, text string) finding { return finding{Check: check, OK: true, Text: text} }

func wrong(check, text, do string) finding { return finding{Check: check, Text: text, Do: do} }

// skipped is a check that could not be made; do may be "".
func skipped(check, text, do string) finding {
	return finding{Check: check, OK: true, Text: text, Do: do, Skipped: true}
}

// Bounds beyond which doctor reports a fault.
const (
	clockSkew  = time.Second
	payloadMin = 1 << 20
)

func doctor(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	var all []finding
	v, err := c.Members(ctx)
	var facts []admin.NodeFact
	var shards []admin.NodeShards
	if err == nil {
		facts, err = c.Facts(ctx)
	}
	if err == nil {
		shards, err = c.Shards(ctx, "")
	}
	if err != nil {
		all = append(all, wrong("members", err.Error(), "check that nodes run, that they are at this broker, and the operator's permissions (shardctl permissions reader)"))
	} else {
		all = examine(o.cluster, v, facts, shards)
		lines, err := c.Events().Next(ctx)
		all = append(all, examineRights(lines, err)...)
		all = append(all, examineInterest(c.Eavesdropped(ctx)))
		all = append(all, examineJetStream(ctx, o, answering(facts))...)
	}
	bad := slices.ContainsFunc(all, func(f finding) bool { return !f.OK })
	if o.json {
		err = printJSON(w, all)
	} else {
		err = printFindings(w, all)
	}
	if err == nil && bad {
		err = errUnhealthy
	}
	return err
}

func printFindings(w io.Writer, all []finding) error {
	var b strings.Builder
	for _, f := range all {
		mark := "ok   "
		switch {
		case f.Skipped:
			mark = "-    "
		case !f.OK:
			mark = "WRONG"
		}
		fmt.Fprintf(&b, "%s %-9s %s\n", mark, f.Check, f.Text)
		if f.Do != "" {
			fmt.Fprintf(&b, "                → %s\n", f.Do)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func examine(cluster string, v admin.View, facts []admin.NodeFact, shards []admin.NodeShards) []finding {
	h := clusterview.Judge(cluster, v, shards)
	all := []finding{{Check: "cluster", OK: h.Healthy, Text: fmt.Sprintf("%d members, %d types, %d shards", h.Members, h.Types, h.Shards)}}
	for _, what := range h.Wrong {
		all = append(all, wrong("cluster", what, "shardctl status, and shardctl events -since 10m for what came before"))
	}
	answered := answering(facts)
	for _, f := range facts {
		if f.Err != nil {
			all = append(all, wrong("answers", fmt.Sprintf("%v: %v", f.Node, f.Err), "look at its log, and at the broker's for denied permissions"))
		}
	}
	return slices.Concat(all, examineHealth(answered), examineClocks(answered), examinePayload(answered), examineVersions(answered), examineContracts(answered), examineStore(answered))
}

func answering(facts []admin.NodeFact) []admin.NodeFact {
	return slices.DeleteFunc(slices.Clone(facts), func(f admin.NodeFact) bool { return f.Err != nil })
}

// examineInterest reports whether an outsider also receives the processes' messages.
func examineInterest(eavesdropped bool, err error) finding {
	switch {
	case err != nil:
		return wrong("interest", err.Error(), "check the operator's permissions (shardctl permissions reader)")
	case eavesdropped:
		return wrong(
			"interest", "somebody listens to all messages of the cluster, and hides it when a process ends",
			"end subscriptions such as nats sub 'sh.>', which nats server report connections --subscriptions finds, and imports or exports of sh.>",
		)
	}
	return good("interest", "the broker reports it when nobody listens for a process")
}

const deniedLine = "broker denied a subject"

func examineRights(lines []admin.Event, err error) []finding {
	if err != nil {
		return []finding{wrong("rights", err.Error(), "look at the log of that member for \""+deniedLine+"\"")}
	}
	var found []finding
	for _, l := range lines {
		if l.Text == deniedLine {
			found = append(found, wrong(
				"rights", fmt.Sprintf("%s at %s: %s", l.Node.Name, l.Time.Local().Format(time.DateTime), l.Attrs),
				"grant its user the rights that shardctl permissions worker prints",
			))
		}
	}
	return fine("rights", "the broker has refused nothing to a member, as far as their logs go back", found)
}

func fine(check, text string, found []finding) []finding {
	if len(found) > 0 {
		return found
	}
	return []finding{good(check, text)}
}

func examineHealth(facts []admin.NodeFact) (found []finding) {
	for _, f := range facts {
		if !f.Ready {
			found = append(found, wrong("ready", fmt.Sprintf("%s: %s", f.Node.Name, strings.Join(f.Reasons, "; ")), "shardctl events -grep "+f.Node.Name))
		}
	}
	return fine("ready", fmt.Sprintf("all %d members that answer are ready", len(facts)), found)
}

// examineClocks compares clocks. A member's time lies between question and answer.
func examineClocks(facts []admin.NodeFact) (found []finding) {
	worst := time.Duration(0)
	for _, f := range facts {
		skew := max(f.Asked.Sub(f.Time), f.Time.Sub(f.Answered), 0)
		worst = max(worst, skew)
		if skew > clockSkew {
			found = append(found, wrong(
				"clocks", fmt.Sprintf("%s's clock and this computer's differ by at least %v", f.Node.Name, skew.Round(time.Millisecond)),
				"synchronize the clocks: ttl of durable entities, keys of commands and log lines go by them",
			))
		}
	}
	return fine("clocks", fmt.Sprintf("within %v of this computer's", max(worst, time.Millisecond).Round(time.Millisecond)), found)
}

func examinePayload(facts []admin.NodeFact) (found []finding) {
	least := 0
	for _, f := range facts {
		if least == 0 || f.MaxPayload < least {
			least = f.MaxPayload
		}
		if f.MaxPayload < payloadMin {
			found = append(found, wrong(
				"payload", fmt.Sprintf("%s is connected to %s, which takes %d bytes", f.Node.Name, cmp.Or(f.Server, "a server"), f.MaxPayload),
				"set max_payload to 1MB or more at every server: calls, states and frames are bounded by it",
			))
		}
	}
	return fine("payload", fmt.Sprintf("max_payload is %d bytes or more", least), found)
}

func examineVersions(facts []admin.NodeFact) (found []finding) {
	at := map[string][]string{}
	for _, f := range facts {
		key := fmt.Sprintf("shardgen %s, %s", cmp.Or(f.Release, "(devel)"), f.Go)
		at[key] = append(at[key], f.Node.Name)
	}
	if len(at) == 1 {
		return []finding{good("versions", clusterview.SortedKeys(at)[0])}
	}
	for _, key := range clusterview.SortedKeys(at) {
		found = append(found, good("versions", fmt.Sprintf("%s: %s", key, strings.Join(at[key], ", "))))
	}
	return found
}

func examineStore(facts []admin.NodeFact) (found []finding) {
	var with, without []string
	for _, f := range facts {
		if f.Store {
			with = append(with, f.Node.Name)
		} else {
			without = append(without, f.Node.Name)
		}
	}
	switch {
	case len(with) > 0 && len(without) > 0:
		return []finding{wrong("store", strings.Join(without, ", ")+" have no store, and others do", "set Config.Store to the same store at all members")}
	case len(with) > 0:
		return []finding{good("store", "all members have one (shardctl store verify checks its records)")}
	}
	return []finding{good("store", "no member has one: durable types cannot be hosted")}
}

// nearLimit is the share of a JetStream limit that counts as a fault.
const nearLimit = 0.8

// examineJetStream checks the store, as far as the operator's rights permit.
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

// storeOf returns the members' store, and the most replicas in their configs.
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

// examineAccount compares an account's use with its limits, which all its streams share.
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

// near reports whether a limit is nearly reached; 0 or below means none.
func near(used uint64, limit int64) bool {
	return limit > 0 && float64(used) >= nearLimit*float64(limit)
}

// examineStreams checks a store's streams. replicas is from the members' configs; 0 means unknown.
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

// examineContracts looks for hosts of a type with different contracts or methods.
func examineContracts(facts []admin.NodeFact) (found []finding) {
	types := 0
	var silent []string // hosts that report no hash
	hosts := hostsByType(facts)
	for _, kind := range clusterview.SortedKeys(hosts) {
		types++
		found = append(found, examineMethods(kind, hosts[kind])...)
		hashes := map[string][]string{} // nodes by hash
		for _, h := range hosts[kind] {
			if h.Hash == "" {
				silent = append(silent, h.node)
			} else {
				hashes[h.Hash] = append(hashes[h.Hash], h.node)
			}
		}
		if len(hashes) > 1 {
			found = append(found, wrong("contracts", fmt.Sprintf("%s has different contracts: %s", kind, groups(hashes)),
				"finish the rollout; shardgen breaking, with the folders of the two programs' packages, says whether one understands the other"))
		}
	}
	if len(silent) > 0 {
		slices.Sort(silent)
		found = append(found, skipped("contracts", fmt.Sprintf("no hash of a contract comes from %s, so that its methods alone are compared", strings.Join(slices.Compact(silent), ", ")),
			"upgrade shardgen, and run go generate"))
	}
	return fine("contracts", fmt.Sprintf("all hosts of %d types have the same contracts", types), found)
}

type hostOf struct {
	node string
	admin.Contract
}

func hostsByType(facts []admin.NodeFact) map[string][]hostOf {
	hosts := map[string][]hostOf{}
	for _, f := range facts {
		for _, c := range f.Contracts {
			hosts[c.Kind] = append(hosts[c.Kind], hostOf{f.Node.Name, c})
		}
	}
	return hosts
}

func examineMethods(kind string, hosts []hostOf) (found []finding) {
	methods := map[string]bool{}
	for _, h := range hosts {
		for _, m := range h.Methods {
			methods[m] = true
		}
	}
	for _, m := range clusterview.SortedKeys(methods) {
		var missing []string
		for _, h := range hosts {
			if !slices.Contains(h.Methods, m) {
				missing = append(missing, h.node)
			}
		}
		if len(missing) > 0 {
			found = append(found, wrong("contracts", fmt.Sprintf("%s.%s is unknown at %s", kind, m, strings.Join(missing, ", ")),
				"finish the rollout: until then a call of it may fail with ErrNoMethod"))
		}
	}
	return found
}

func groups(hashes map[string][]string) string {
	keys := clusterview.SortedKeys(hashes)
	slices.SortStableFunc(keys, func(a, b string) int { return len(hashes[b]) - len(hashes[a]) })
	var parts []string
	for _, hash := range keys {
		parts = append(parts, fmt.Sprintf("%s at %s", hash, strings.Join(hashes[hash], ", ")))
	}
	return strings.Join(parts, "; ")
}
