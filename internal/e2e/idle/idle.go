// Package idle measures the messages among the processes of a real cluster while
// nobody calls it, by listening to all of its subjects.
package idle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
)

// Options choose the cluster and the time of a measurement.
type Options struct {
	Cluster cluster.Options
	Nodes   int
	// Settle is how long the nodes are left alone before the measurement, and Length is how
	// long the measurement takes.
	Settle, Length time.Duration
}

// A Traffic has the counts and bytes of messages, by kind.
type Traffic struct {
	Nodes  int
	Length time.Duration
	kinds  map[string]*share
}

// share is one kind's part, over all nodes and the whole time. A broadcast is
// sent once and received by every other node. Messages that come back to their sender are
// counted apart, and so are messages that are sent to the sender alone.
type share struct {
	sent, received int
	payload        int // bytes, sent plus received
	subjects       int // bytes, sent plus received
	echoes         int // own messages that came back
	echoed         int // their payload and subjects, in bytes
}

// Measure starts nodes and listens to them. ctx bounds the whole.
func Measure(ctx context.Context, o Options) (t Traffic, err error) {
	c, err := cluster.New(o.Cluster)
	if err != nil {
		return Traffic{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for i := range o.Nodes {
		if _, err := c.Start(ctx, fmt.Sprint("n", i+1)); err != nil {
			return Traffic{}, err
		}
	}
	if err := sleep(ctx, o.Settle); err != nil {
		return Traffic{}, err
	}
	t = Traffic{Nodes: o.Nodes, kinds: map[string]*share{}}
	nc, err := nats.Connect(c.URL())
	if err != nil {
		return Traffic{}, err
	}
	defer nc.Close()
	var mu sync.Mutex
	sub, err := nc.Subscribe("sh."+c.Name()+".>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		t.count(c.Name(), m.Subject, m.Reply, m.Data)
	})
	if err != nil {
		return Traffic{}, err
	}
	begin := time.Now()
	if err := sleep(ctx, o.Length); err != nil {
		return Traffic{}, err
	}
	if err := sub.Unsubscribe(); err != nil {
		return Traffic{}, err
	}
	mu.Lock()
	defer mu.Unlock()
	t.Length = time.Since(begin)
	return t, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// count adds one message as it was published.
func (t *Traffic) count(cluster, subject, reply string, data []byte) {
	kind, from := kindOf(cluster, data)
	s := t.kinds[kind]
	if s == nil {
		s = &share{}
		t.kinds[kind] = s
	}
	own := strings.HasPrefix(subject, fmt.Sprintf("sh.%s.m.%s.", cluster, from))
	others := 1
	switch {
	case subject == "sh."+cluster+".m.all":
		own, others = true, t.Nodes-1
	case own:
		others = 0
	}
	names := len(subject) + len(reply)
	s.sent++
	s.received += others
	if own {
		s.echoes++
		s.echoed += len(data) + names
	}
	if others == 0 { // nobody else gets it, so its sending is counted with its echo
		s.echoed += len(data) + names
		return
	}
	s.payload += len(data) * (1 + others)
	s.subjects += names * (1 + others)
}

// kindOf returns the kind of a message, and its sender.
func kindOf(cluster string, data []byte) (kind, from string) {
	peer, topic, body, err := wire.OpenControl(cluster, data)
	if err != nil {
		return "data", ""
	}
	from = fmt.Sprintf("%s.%016x", peer.Name, peer.Incarnation)
	var m any
	var label string
	switch topic {
	case wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP:
		label = "membership."
		m, err = membership.Decode(body)
	case wire.ControlTopic_CONTROL_TOPIC_COORDINATOR:
		label = "coordinator."
		m, err = coordinator.Decode(body)
	default:
		return strings.ToLower(strings.TrimPrefix(topic.String(), "CONTROL_TOPIC_")), from
	}
	if err != nil {
		return "unknown", from
	}
	_, name, _ := strings.Cut(fmt.Sprintf("%T", m), ".")
	return label + name, from
}

// Print writes the shares of a node a second, the largest first, as a table that
// is Markdown, too.
func (t Traffic) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, "| message\t| sent/s\t| received/s\t| payload B/s\t| subjects B/s\t| own echo B/s\t|")
	fmt.Fprintln(table, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	per := float64(t.Nodes) * t.Length.Seconds()
	row := func(name string, s share) {
		fmt.Fprintf(table, "| %s\t| %.2f\t| %.2f\t| %.0f\t| %.0f\t| %.0f\t|\n", name, float64(s.sent)/per, float64(s.received+s.echoes)/per,
			float64(s.payload)/per, float64(s.subjects)/per, float64(s.echoed)/per)
	}
	var all share
	kinds := slices.Sorted(maps.Keys(t.kinds))
	slices.SortStableFunc(kinds, func(a, b string) int { return cmp.Compare(t.kinds[b].payload, t.kinds[a].payload) })
	for _, kind := range kinds {
		s := *t.kinds[kind]
		row(kind, s)
		all.sent += s.sent
		all.received += s.received
		all.payload += s.payload
		all.subjects += s.subjects
		all.echoes += s.echoes
		all.echoed += s.echoed
	}
	row("all", all)
	return table.Flush()
}
