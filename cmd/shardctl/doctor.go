package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/runtime/admin"
)

// A jsonFinding is one element of the output of doctor -json. Fields are added, never changed.
type jsonFinding struct {
	Check    string    `json:"check"`
	OK       bool      `json:"ok"`
	Node     string    `json:"node,omitempty"`
	Severity string    `json:"severity"`
	Since    time.Time `json:"since,omitzero"`
	Text     string    `json:"text"`
	Do       string    `json:"do,omitempty"` // how to mend it
	// Skipped means that the check could not be made, so no fault is known.
	Skipped bool `json:"skipped,omitempty"`
}

// secondLook is the time between doctor's two looks at a cluster with recent faults: only faults
// seen twice are reported.
const secondLook = 2 * time.Second

func doctor(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	var lines []admin.Event
	var eventErr error
	var reading sync.WaitGroup
	reading.Go(func() { lines, eventErr = c.Events().Next(ctx) })
	examine := func() []operator.Finding {
		s := clusterview.Look(ctx, c)
		reading.Wait()
		if s.Err == nil {
			noteRights(&s, lines, eventErr)
			s.Checked = append(s.Checked, interest(c.Eavesdropped(ctx)))
			askJetStream(ctx, o, &s)
		}
		return verdict.Judge(s)
	}
	began := time.Now()
	all := examine()
	if slices.ContainsFunc(all, recent) {
		select {
		case <-time.After(time.Until(began.Add(secondLook))):
			all = verdict.Lasting(all, examine())
		case <-ctx.Done():
		}
	}
	var err error
	if o.json {
		err = printJSON(w, jsonFindings(all))
	} else {
		err = printFindings(w, all)
	}
	if err == nil && verdict.Worst(all) >= operator.Fault {
		err = errUnhealthy
	}
	return err
}

func jsonFindings(all []operator.Finding) []jsonFinding {
	found := []jsonFinding{}
	for _, f := range all {
		found = append(found, jsonFinding{f.Check, f.Severity < operator.Fault, f.Node, f.Severity.String(), f.Since, f.Text, f.Do, f.Severity == operator.Skipped})
	}
	return found
}

func printFindings(w io.Writer, all []operator.Finding) error {
	var b strings.Builder
	for _, f := range all {
		mark := "note "
		switch {
		case f.Severity == operator.Skipped:
			mark = "-    "
		case f.Severity == operator.Fine:
			mark = "ok   "
		case f.Severity >= operator.Fault:
			mark = "WRONG"
		}
		fmt.Fprintf(&b, "%s %-9s %s%s\n", mark, f.Check, f.String(), sinceText(f.Since))
		if f.Do != "" {
			fmt.Fprintf(&b, "                → %s\n", f.Do)
		}
	}
	_, err := io.WriteString(w, paint(w, b.String()))
	return err
}

// recent reports whether a finding is a fault that may just have begun.
func recent(f operator.Finding) bool {
	return f.Severity >= operator.Fault && (f.Since.IsZero() || time.Since(f.Since) < secondLook)
}

// sinceText returns since when a finding holds, for the end of its line.
func sinceText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (since %s)", t.Local().Format(time.DateTime))
}

// interest returns the finding about eavesdropped, which is true if a subscriber outside the
// cluster also receives the processes' messages.
func interest(eavesdropped bool, err error) operator.Finding {
	switch {
	case err != nil:
		return operator.Finding{Check: verdict.Interest, Severity: operator.Fault, Text: err.Error(), Do: "check the operator's permissions (shardctl permissions reader)"}
	case eavesdropped:
		return operator.Finding{
			Check: verdict.Interest, Severity: operator.Fault, Text: "somebody subscribes to all messages of the cluster, so the broker cannot report that a process has ended",
			Do: "end subscriptions such as nats sub 'sh.>', which nats server report connections --subscriptions finds, and imports or exports of sh.>",
		}
	}
	return operator.Finding{Check: verdict.Interest, Text: "the broker reports messages to a process that has ended"}
}

const deniedLine = "broker denied a subject"

// noteRights looks for rights that the broker has refused, in the members' logs.
func noteRights(s *verdict.Snapshot, lines []admin.Event, err error) {
	for _, l := range lines {
		if l.Text == deniedLine {
			s.Denied = append(s.Denied, verdict.Denial{Node: l.Node.Name, At: l.Time, Why: l.Attrs})
		}
	}
	switch {
	case err != nil:
		s.Checked = append(s.Checked, operator.Finding{Check: verdict.Rights, Severity: operator.Fault, Text: err.Error(), Do: "look at the log of that member for \"" + deniedLine + "\""})
	case len(s.Denied) == 0:
		s.Checked = append(s.Checked, operator.Finding{Check: verdict.Rights, Text: "no member's log says that the broker has refused a right"})
	}
}

// askJetStream asks for the store's streams, as far as the operator's rights permit.
func askJetStream(ctx context.Context, o *options, s *verdict.Snapshot) {
	name, replicas, stored := storeOf(s.Answers)
	name = cmp.Or(o.store, name)
	skip := func(do, format string, args ...any) {
		s.Checked = append(s.Checked, operator.Finding{Check: verdict.JetStreams, Severity: operator.Skipped, Text: "not checked: " + fmt.Sprintf(format, args...), Do: do})
	}
	switch {
	case name == "" && !stored:
		skip("", "no member that answers has a store")
		return
	case name == "":
		skip("if it is, give the store's name with -store", "the members do not say that their store is on JetStream")
		return
	}
	began, since := time.Now(), time.Time{}
	found, err := lookAtJetStream(ctx, o, name, replicas)
	if time.Since(began) >= secondLook { // if there was no answer, that has lasted
		since = began
	}
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		skip(fmt.Sprintf("grant the rights of shardctl permissions reader -cluster %s -name NAME -store STORE, and give -name", o.cluster), "%v", err)
	case err != nil:
		s.Checked = append(s.Checked, operator.Finding{Check: verdict.JetStreams, Severity: operator.Fault, Since: since, Text: err.Error(), Do: jetStreamRemedy(err)})
	default:
		s.JetStream = found
	}
}

// storeOf returns the members' store, and the most replicas in their configs.
func storeOf(all []verdict.Answer) (name string, replicas int, stored bool) {
	for _, a := range all {
		if f := a.Fact; f != nil {
			stored = stored || f.Store
			replicas = max(replicas, f.StoreReplicas)
			name = cmp.Or(f.StoreName, name)
		}
	}
	return name, replicas, stored
}

func jetStreamRemedy(err error) string {
	var refused *jetStreamError
	switch {
	case errors.Is(err, errNoJetStream):
		return "enable it at the servers (jetstream { store_dir: … }): calls of durable entities wait for it"
	case errors.As(err, &refused):
		return "enable it for the account of the members; of a cluster of servers, more than half must run"
	}
	return "look at the servers: of a cluster, more than half must run, and one must have room on its disk"
}

func lookAtJetStream(ctx context.Context, o *options, name string, replicas int) (*verdict.JetStream, error) {
	js, err := dialJetStream(ctx, &o.connection)
	if err != nil {
		return nil, err
	}
	defer js.conn.Close()
	account, err := js.account()
	if err != nil {
		return nil, err
	}
	list, err := js.streams(name + ".>")
	if err != nil {
		return nil, err
	}
	found := &verdict.JetStream{Store: name, Replicas: replicas, Limits: accountLimits(account), Bytes: account.Store, Missing: list.Missing, Offline: list.Offline}
	for _, s := range list.Streams {
		found.Streams = append(found.Streams, streamOf(s))
	}
	return found, nil
}

// accountLimits returns an account's use and its limits, which all its streams share.
func accountLimits(a jetstream.AccountInfo) (all []verdict.Limit) {
	tiers := map[string]jetstream.Tier{"": a.Tier}
	if len(a.Tiers) > 0 {
		tiers = a.Tiers
	}
	for _, name := range verdict.SortedKeys(tiers) {
		t, of := tiers[name], "the account"
		if name != "" {
			of += "'s tier " + name
		}
		all = append(all, verdict.Limit{
			Text: fmt.Sprintf("%s uses %s of %s on disk", of, verdict.Size(t.Store), verdict.Size(uint64(max(t.Limits.MaxStore, 0)))), Used: t.Store, Most: t.Limits.MaxStore,
			Do: "raise max_file of the account, or make room: at the limit, no durable entity commits",
		}, verdict.Limit{
			Text: fmt.Sprintf("%s has %d of %d streams", of, t.Streams, t.Limits.MaxStreams), Used: uint64(t.Streams), Most: int64(t.Limits.MaxStreams),
			Do: "raise max_streams of the account: at the limit, no further durable type can be hosted",
		})
	}
	return all
}

func streamOf(s *jetstream.StreamInfo) verdict.Stream {
	t := verdict.Stream{
		Name: s.Config.Name, Replicas: s.Config.Replicas, Bytes: s.State.Bytes, Messages: s.State.Msgs, MaxBytes: s.Config.MaxBytes, MaxCount: s.Config.MaxMsgs,
	}
	if s.Cluster == nil {
		return t
	}
	t.Clustered, t.Leader = true, s.Cluster.Leader
	for _, p := range s.Cluster.Replicas {
		t.Peers = append(t.Peers, verdict.Peer{Name: p.Name, Offline: p.Offline, Current: p.Current, Lag: p.Lag, Silent: p.Active})
	}
	return t
}
