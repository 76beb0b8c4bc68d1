package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

// A finding is the result of one check of doctor.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // how to mend it
	// Skipped means that the check could not be made, and nothing is known to be wrong.
	Skipped bool `json:"skipped,omitempty"`
}

// good is the finding that nothing is wrong.
func good(check, text string) finding { return finding{Check: check, OK: true, Text: text} }

// wrong is the finding of a fault; do is how to mend it.
func wrong(check, text, do string) finding { return finding{Check: check, Text: text, Do: do} }

// skipped is the finding that a check could not be made; do is the remedy, and may be "".
func skipped(check, text, do string) finding {
	return finding{Check: check, OK: true, Text: text, Do: do, Skipped: true}
}

// Bounds beyond which doctor complains.
const (
	clockSkew  = time.Second
	payloadMin = 1 << 20
)

// doctor checks the conditions that a cluster needs, and names a remedy for each that does not
// hold.
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

// examine judges the answers of the members.
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

// answering are the facts of members that have answered.
func answering(facts []admin.NodeFact) []admin.NodeFact {
	return slices.DeleteFunc(slices.Clone(facts), func(f admin.NodeFact) bool { return f.Err != nil })
}

// examineInterest judges whether anybody else listens to the cluster's messages.
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

// deniedLine is the text of a member's log line about a subject that the broker refuses to it.
const deniedLine = "broker denied a subject"

// examineRights looks for rights that the broker has refused to members, in their logs.
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

// fine returns the findings of faults, or if there are none, the finding that nothing is wrong.
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

// examineClocks compares the members' clocks with this process's: an answer was given between the
// question and its arrival.
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
