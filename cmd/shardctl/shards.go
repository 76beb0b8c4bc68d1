package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/runtime/admin"
)

// The output of shards -json. Fields are added, never changed.
type (
	jsonShard struct {
		Type     string `json:"type"`
		Shard    uint32 `json:"shard"`
		Node     string `json:"node,omitempty"` // name#incarnation; none: it has no home
		State    string `json:"state"`
		Entities uint32 `json:"entities"`
		Active   uint32 `json:"active"`
		Waiting  uint32 `json:"waiting"`
	}
	jsonShards struct {
		Cluster string            `json:"cluster"`
		Shards  []jsonShard       `json:"shards"`
		Silent  map[string]string `json:"silent,omitempty"` // why a member did not answer
		// Unhosted counts members' waiting calls to types that have no host, by type.
		Unhosted map[string]int `json:"unhosted,omitempty"`
	}
)

// noHome is printed as the state of a shard without a home.
const noHome = "no home"

// shards prints sums by type and member or, for one type, each shard.
func shards(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	all, err := c.Shards(ctx, o.kind)
	if err != nil {
		return err
	}
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	rows, silent := shardRows(all)
	unhosted := verdict.Unhosted(clusterview.Snapshot(v, all, nil, nil))
	switch {
	case o.json:
		err = printJSON(w, jsonShards{o.cluster, rows, silent, unhosted})
	case o.kind != "" && (unhosted[o.kind] > 0 || len(rows) == 0 && !hosted(v, o.kind)):
		return fmt.Errorf("cluster %s: no member hosts the type %s, and %d calls of members wait for it (start a member that hosts it; shardctl shards lists the types)", o.cluster, o.kind, unhosted[o.kind])
	case o.kind == "":
		err = printShardSums(w, o, rows)
	default:
		err = printShards(w, o, rows)
	}
	for _, kind := range verdict.SortedKeys(unhosted) {
		if err == nil && !o.json && o.kind == "" {
			_, err = fmt.Fprintf(w, "%s: no member hosts it, so calls of it wait: %d (start a member that hosts it)\n", kind, unhosted[kind])
		}
	}
	if err == nil && len(silent) > 0 {
		err = fmt.Errorf("cluster %s: not all members have answered: %v", o.cluster, verdict.SortedKeys(silent))
	}
	return err
}

func hosted(v admin.View, kind string) bool {
	return slices.ContainsFunc(v.Members, func(m admin.Member) bool { return slices.Contains(m.Hosts, kind) })
}

// shardRows orders shards by type and number, and returns why members are silent. A moving shard
// has a row for each home.
func shardRows(all []admin.NodeShards) (rows []jsonShard, silent map[string]string) {
	rows, silent = []jsonShard{}, map[string]string{}
	type id struct {
		kind  string
		shard uint32
	}
	homeless := map[id]bool{}
	for _, n := range all {
		if n.Err != nil {
			silent[n.Node.String()] = n.Err.Error()
		}
		for _, t := range n.Types {
			for _, number := range t.Homeless {
				homeless[id{t.Kind, number}] = true
			}
			for _, s := range t.Held {
				rows = append(rows, jsonShard{t.Kind, s.Shard, n.Node.String(), s.State, s.Entities, s.Active, s.Waiting})
			}
		}
	}
	for s := range homeless {
		rows = append(rows, jsonShard{Type: s.kind, Shard: s.shard, State: noHome})
	}
	slices.SortFunc(rows, func(a, b jsonShard) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Node, b.Node))
	})
	return rows, silent
}

func printShardSums(w io.Writer, o *options, rows []jsonShard) error {
	type place struct{ kind, node string }
	type sum struct{ active, moving, entities, values, waiting int }
	sums := map[place]*sum{}
	var places []place
	for _, r := range rows {
		p := place{r.Type, r.Node}
		s := sums[p]
		if s == nil {
			s = &sum{}
			sums[p] = s
			places = append(places, p)
		}
		if r.State == "active" || r.State == noHome {
			s.active++
		} else {
			s.moving++
		}
		s.entities += int(r.Entities)
		s.values += int(r.Active)
		s.waiting += int(r.Waiting)
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.node, b.node)) })
	t := tableOf(o, "TYPE", "NODE", "SHARDS", "MOVING", "ENTITIES", "IN MEMORY", "WAITING")
	for _, p := range places {
		s := sums[p]
		t.row(p.kind, nameOf(p.node), s.active, s.moving, s.entities, s.values, s.waiting)
	}
	return t.print(w)
}

func printShards(w io.Writer, o *options, rows []jsonShard) error {
	t := tableOf(o, "SHARD", "NODE", "STATE", "ENTITIES", "IN MEMORY", "WAITING")
	for _, r := range rows {
		t.row(r.Shard, nameOf(r.Node), r.State, r.Entities, r.Active, r.Waiting)
	}
	return t.print(w)
}

// nameOf drops the incarnation, so that tables fit 80 columns.
func nameOf(node string) string {
	name, _, _ := strings.Cut(node, "#")
	return cmp.Or(name, "(none)")
}

// A jsonPlace is the output of where -json. Fields are added, never changed.
type jsonPlace struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Shard uint32 `json:"shard"`
	Node  string `json:"node,omitempty"`
	Epoch string `json:"epoch,omitempty"`
	Why   string `json:"why,omitempty"`
	// Since is when the shard got its home. It is absent if that was before the coordinator began,
	// or if the shard has no home.
	Since *time.Time `json:"since,omitempty"`
}

func placeOf(o *options, p admin.Place) jsonPlace {
	j := jsonPlace{Type: o.kind, ID: o.id, Shard: p.Shard, Node: p.Node, Epoch: p.Epoch, Why: p.Why}
	if !p.Since.IsZero() {
		since := p.Since.UTC()
		j.Since = &since
	}
	return j
}

func where(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	if o.id == "" {
		return whereSingleton(ctx, c, o, w)
	}
	p, err := c.Where(ctx, o.kind, o.id)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, placeOf(o, p))
	}
	at := "at " + p.Node + " under epoch " + p.Epoch
	if !p.Since.IsZero() {
		at += " since " + p.Since.Local().Format(time.DateTime)
	}
	if p.Node == "" {
		at = "without a home"
	}
	_, err = fmt.Fprintf(w, "%s/%s is in shard %d, which is %s\nwhy: %s\n", o.kind, o.id, p.Shard, at, cmp.Or(p.Why, "the coordinator has no reason for it"))
	return err
}

func whereSingleton(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	rows := viewOf(o.cluster, v).Singletons
	i := slices.IndexFunc(rows, func(s jsonSingleton) bool { return s.Name == o.kind })
	switch {
	case i < 0:
		return fmt.Errorf("cluster %s: no member hosts a singleton %s (for an entity, give its ID)", o.cluster, o.kind)
	case o.json:
		return printJSON(w, rows[i])
	case rows[i].Node == "":
		_, err = fmt.Fprintf(w, "%s runs nowhere: %s\n", o.kind, rows[i].Why)
		return err
	}
	_, err = fmt.Fprintf(w, "%s runs at %s\nwhy: it runs at the oldest member that hosts it and is up, of %s\n", o.kind, nameOf(rows[i].Node), list(namesOf(v.Singletons[i].Hosts)))
	return err
}

// moves prints present and recent moves of shards.
func moves(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	all, at, err := c.Moves(ctx)
	if err != nil {
		return err
	}
	lately, silent := c.Events().Next(ctx) // even with an error, it returns the lines of members that answer
	lately = slices.DeleteFunc(lately, func(e admin.Event) bool {
		return time.Since(e.Time) > o.since || !slices.Contains(ended, strings.TrimPrefix(e.Text, coordinatorSays))
	})
	if o.json {
		j := movesOf(o.cluster, at.String(), all, lately)
		j.Pause = pauseOf(v)
		return orErr(printJSON(w, j), silent)
	}
	fmt.Fprintf(w, "%s%d moves under way, as the coordinator at %s knows\n", pausedSince(v.Pause), len(all), at.Name)
	for _, m := range all {
		fmt.Fprintf(w, "%s/%d %s→%s for %v, %s: %s\n", m.Kind, m.Shard, m.From.Name, m.To.Name, m.For.Round(time.Millisecond), m.Why, m.Phase)
	}
	fmt.Fprintf(w, "ended in the last %v: %d\n", o.since, len(lately))
	for _, e := range lately {
		fmt.Fprintf(w, "%s %s %s\n", e.Time.Local().Format("15:04:05.000"), strings.TrimPrefix(e.Text, coordinatorSays), e.Attrs)
	}
	return silent
}

const coordinatorSays = "coordinator: "

var ended = []string{"move committed", "move resumed", "move promoted"}

type (
	jsonMove struct {
		Type    string  `json:"type"`
		Shard   uint32  `json:"shard"`
		From    string  `json:"from"`
		To      string  `json:"to"`
		Epoch   string  `json:"epoch"`
		Why     string  `json:"why"`
		Phase   string  `json:"phase"`
		Seconds float64 `json:"seconds"`
	}
	jsonMoves struct {
		Cluster     string      `json:"cluster"`
		Coordinator string      `json:"coordinator"`
		Moves       []jsonMove  `json:"moves"`
		Ended       []jsonEvent `json:"ended"`
		Pause       *jsonPause  `json:"pause,omitempty"` // of rebalancing
	}
)

func movesOf(cluster, at string, all []admin.Move, lately []admin.Event) jsonMoves {
	j := jsonMoves{Cluster: cluster, Coordinator: at, Moves: []jsonMove{}, Ended: []jsonEvent{}}
	for _, m := range all {
		j.Moves = append(j.Moves, jsonMove{m.Kind, m.Shard, m.From.String(), m.To.String(), m.Epoch, m.Why, m.Phase, m.For.Seconds()})
	}
	for _, e := range lately {
		j.Ended = append(j.Ended, jsonEvent{e.Time.UTC(), e.Level, e.Node.String(), stringsOf(e.Also), e.Text, e.Attrs})
	}
	return j
}

func pin(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	if (o.node == "") != o.withdraw {
		return errors.New("give a NODE, or -withdraw")
	}
	p, err := c.Place(ctx, o.kind, o.id, o.node)
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(w, placeOf(o, p))
	}
	done := "is to live at " + o.node
	if o.withdraw {
		done = "is placed by its type's allocation again"
	}
	_, err = fmt.Fprintf(w, "shard %d of %s/%s, now at %s, %s (shardctl moves shows the move)\n", p.Shard, o.kind, o.id, cmp.Or(p.Node, "no home"), done)
	return err
}

func move(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	at := strings.LastIndexByte(o.shard, '/')
	number, err := strconv.ParseUint(o.shard[at+1:], 10, 32)
	if at <= 0 || err != nil {
		return fmt.Errorf("%q is not a shard: give its type and number, as in Cart/300 (shardctl where prints the shard of an entity)", o.shard)
	}
	kind := o.shard[:at]
	if err := c.MoveShard(ctx, kind, uint32(number), o.node); err != nil {
		return err
	}
	if o.json {
		return printJSON(w, jsonMoved{o.cluster, kind, uint32(number), o.node})
	}
	_, err = fmt.Fprintf(w, "%s moves to %s, or is there (shardctl moves shows the move)\n", o.shard, o.node)
	return err
}

// A jsonMoved is the output of move -json. Fields are added, never changed.
type jsonMoved struct {
	Cluster string `json:"cluster"`
	Type    string `json:"type"`
	Shard   uint32 `json:"shard"`
	Node    string `json:"node"`
}

// A jsonPool is the output of pool -json. Fields are added, never changed.
type jsonPool struct {
	Cluster   string         `json:"cluster"`
	Type      string         `json:"type"`
	Why       string         `json:"why"`
	Instances []jsonInstance `json:"instances"`
}

type jsonInstance struct {
	Index int    `json:"index"`
	Node  string `json:"node"`
	State string `json:"state"`
}

func pool(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	if o.count != "" {
		n, err := strconv.ParseUint(o.count, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a number of instances (0 lets the load decide)", o.count)
		}
		if err := c.SizePool(ctx, o.kind, uint32(n)); err != nil {
			return err
		}
	}
	first, err := c.Where(ctx, o.kind, "0")
	if err != nil {
		return err
	}
	all, err := c.Shards(ctx, o.kind)
	if err != nil {
		return err
	}
	rows, _ := shardRows(all)
	_, why, isPool := strings.Cut(first.Why, "; the pool has ")
	if !isPool {
		return fmt.Errorf("cluster %s: %s: %s", o.cluster, o.kind, cmp.Or(first.Why, "the coordinator has not answered"))
	}
	j := jsonPool{Cluster: o.cluster, Type: o.kind, Why: why, Instances: []jsonInstance{}}
	for _, r := range rows {
		j.Instances = append(j.Instances, jsonInstance{int(r.Shard - first.Shard), r.Node, r.State})
	}
	if o.json {
		return printJSON(w, j)
	}
	t := tableOf(o, "INSTANCE", "NODE", "STATE")
	for _, i := range j.Instances {
		t.row(i.Index, nameOf(i.Node), i.State)
	}
	if err := t.print(w); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, why)
	return err
}

// The output of rebalance, pause and resume with -json. Fields are added, never changed.
type (
	jsonBalanced struct {
		Cluster string `json:"cluster"`
		Result  string `json:"result"`
	}
	jsonPause struct {
		By string    `json:"by"`
		At time.Time `json:"at"`
	}
)

func rebalance(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	result, err := c.Rebalance(ctx)
	return printBalanced(w, o, result, err)
}

func pause(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	return printBalanced(w, o, "rebalancing is paused", c.PauseRebalancing(ctx))
}

func resume(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	return printBalanced(w, o, "rebalancing is not paused", c.ResumeRebalancing(ctx))
}

func printBalanced(w io.Writer, o *options, result string, err error) error {
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(w, jsonBalanced{o.cluster, result})
	}
	_, err = fmt.Fprintln(w, result)
	return err
}

func pauseOf(v admin.View) *jsonPause {
	if v.Pause.IsZero() {
		return nil
	}
	return &jsonPause{v.Pause.By, v.Pause.At.UTC()}
}

func pausedSince(p admin.Pause) string {
	if p.IsZero() {
		return ""
	}
	return fmt.Sprintf("rebalancing is paused by %s since %s\n", p.By, p.At.Local().Format(time.DateTime))
}
