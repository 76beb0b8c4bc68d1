package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/stream"
	"github.com/shardgen/shardgen/transport"
)

type inspections struct{ node *Node }

// explainTimeout bounds the wait for the coordinator's reason. The asking process waits longer, so
// it gets the home even without the reason.
const explainTimeout = 2 * time.Second

func (i inspections) answer(ctx context.Context, r *operator.Request) (a operator.Answer, err error) {
	switch r.Command {
	case operator.Shards:
		a.Types = i.types(r.Entity.Kind)
	case operator.Where:
		a.Where, err = i.where(ctx, r.Entity.Kind, r.Entity.ID)
	case operator.Counters:
		a.Counters = i.node.Counters()
	case operator.Events:
		a.Lines, a.Last = i.node.lines.After(r.After, i.node.driver.MaxResult()/2)
	case operator.Turns:
		report := i.node.driver.ReportTurns(node.TurnsUnderWay(i.node.hosted()).Running())
		a.Turns = &report
	case operator.Facts:
		a.Facts = i.facts()
	case operator.Trends:
		var last time.Time
		a.Minutes, last = i.node.driver.Trend.After(time.Unix(int64(min(r.After, math.MaxInt32)), 0), i.node.driver.MaxResult()/2)
		a.Last = uint64(max(0, last.Unix()))
	case operator.Feeds:
		a.Feeds, err = i.feeds(ctx)
	case operator.Place:
		a.Where, err = i.pinShard(ctx, r.Entity, r.Home)
	case operator.Rebalance, operator.PauseRebalancing, operator.ResumeRebalancing:
		a.Result, err = i.balance(ctx, r)
	case operator.List:
		a.IDs, a.More, err = i.list(ctx, r.Entity.Kind, r.List)
	case operator.Reminders, operator.CancelReminder, operator.RetryReminder:
		if r.Entity.ID == "" {
			a.Result = i.pauseText(ctx, r)
			a.IDs, a.More, err = i.dues(ctx, r)
		} else {
			a.Reminders, err = i.reminders(ctx, r)
		}
	case operator.PauseReminders, operator.ResumeReminders:
		err = i.pauseReminders(ctx, r)
	case operator.Dump:
		a.Result = i.stacks()
	case operator.SizePool:
		err = i.node.SizePool(ctx, r.Entity.Kind, int(r.Count))
	case operator.MoveShard:
		err = i.node.MoveShard(ctx, r.Entity.Kind, r.Count, r.Home)
	default:
		a.Entities, err = repairs(i).states(r)
	}
	return a, err
}

// stacks returns the stacks of all goroutines, clipped to what one answer has room for.
func (i inspections) stacks() string {
	b := make([]byte, i.node.driver.MaxResult()/2)
	n := runtime.Stack(b, true)
	if n < len(b) {
		return string(b[:n])
	}
	return string(b) + "\n... clipped, because an answer has no room for more\n"
}

// types returns this node's shards of a type, or of all types if kind is "".
func (i inspections) types(kind string) []operator.Type {
	table := i.node.driver.ShardTable.Load()
	names, used, wanted := table.Types(), i.node.driver.Load.Last(), i.node.control.member.Pools()
	for name := range *i.node.driver.Kinds.Load() {
		names = append(names, name)
	}
	slices.Sort(names)
	var types []operator.Type
	for _, name := range slices.Compact(names) {
		if kind != "" && name != kind {
			continue
		}
		t := operator.Type{Kind: name, Waiting: uint32(i.node.driver.HeldFor(name))}
		t.Wanted = uint32(wanted[name])
		if k := (*i.node.driver.Kinds.Load())[name]; k != nil && k.Host != nil {
			t.Stuck, t.Durable = k.Host.StuckShards(time.Now()), k.Host.Desc.Durable
		}
		if k := table.Type(name); k != nil {
			t.Shards = k.Shards()
			t.Homeless = homeless(k, isPool(i.node, name))
			if p := (*i.node.driver.Kinds.Load())[name]; p != nil && p.Pool != nil {
				t.Instances = uint32(p.Pool.Count())
			}
		}
		if t.Waiting > 0 || len(t.Homeless) > 0 {
			t.Why = whyWaits(i.node.driver, i.node.control.member.Reasons(), name, t.Waiting > 0, time.Now())
		}
		for _, h := range i.node.inspectShards(name) {
			t.Held = append(t.Held, operator.Shard{Shard: h.Shard, State: h.State.String(), Entities: h.Entities, Active: h.Active, Waiting: h.Waiting, Used: used.Of(name, h.Shard)})
		}
		types = append(types, t)
	}
	return types
}

// where returns an entity's home. If the coordinator does not answer, Home.Why says so.
func (i inspections) where(ctx context.Context, kind, id string) (operator.Home, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	at, err := i.node.Locate(ctx, kind, id)
	if err != nil && ctx.Err() != nil {
		at.Why, err = fmt.Sprintf("unknown: the coordinator has not answered within %v", explainTimeout), nil
	}
	return operator.Home{Shard: at.Shard, Node: at.Node, Epoch: at.Epoch, Why: at.Why, Since: at.Since}, err
}

// pinShard pins an entity's shard to home, or withdraws the pin if home is "".
func (i inspections) pinShard(ctx context.Context, e operator.Entity, home string) (operator.Home, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	k := (*i.node.driver.Kinds.Load())[e.Kind]
	if k == nil || k.Desc.Singleton {
		return operator.Home{}, fmt.Errorf("this node knows no entity type %s with shards (ask a node that hosts the type)", clip(e.Kind))
	}
	number, err := k.ShardOf(e.ID)
	if err == nil {
		err = i.node.PinShards(ctx, e.Kind, map[uint32]string{number: home})
	}
	if err != nil {
		return operator.Home{}, err
	}
	return i.where(ctx, e.Kind, e.ID)
}

// listTimeout bounds how long the node takes to answer one request of an operator for entities,
// reminders or feeds. The operator's process waits longer, so it gets the node's error, which names
// the shard that did not answer.
const listTimeout = 2500 * time.Millisecond

// maxListed bounds the ids in one answer. An answer of 1,000 of the longest ids may exceed what the
// broker takes, so their bytes are bounded, too.
const maxListed = 1000

func (i inspections) list(ctx context.Context, kind string, l operator.Listing) (ids []string, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	k := (*i.node.driver.Kinds.Load())[kind]
	if k == nil || k.Desc.Singleton {
		return nil, false, fmt.Errorf("this node knows no entity type %s with shards (ask a node that hosts the type)", clip(kind))
	}
	asked, key := codegen.Listing{Prefix: l.Prefix, After: l.After, Active: l.Active}, ""
	if l.Where != "" {
		if key, err = where(k, l.Where, &asked); err != nil {
			return nil, false, err
		}
	}
	ids, more, err = i.page(node.InvokerOf(k).(codegen.Lister).List(ctx, asked), l.Limit)
	for n, id := range ids {
		ids[n] = strings.TrimPrefix(id, key)
	}
	return ids, more, err
}

// page returns the first ids of all: as many as fit an answer, and at most limit unless limit is 0.
// more reports whether there are further ids.
func (i inspections) page(all iter.Seq2[string, error], limit int) (ids []string, more bool, err error) {
	most, room := maxListed, i.node.driver.MaxResult()/2
	if limit > 0 {
		most = min(most, limit)
	}
	for id, err := range all {
		if err != nil {
			return nil, false, err
		}
		if room -= len(id); len(ids) == most || room < 0 && len(ids) > 0 {
			return ids, true, nil
		}
		ids = append(ids, id)
	}
	return ids, false, nil
}

// where turns the list l into a search for an indexed field's value, given in text as
// "field=value". It returns the value's key.
func where(k *node.Kind, text string, l *codegen.Listing) (key string, err error) {
	name, value, _ := strings.Cut(text, "=")
	if k.Host == nil || len(k.Host.Desc.Indexes) == 0 {
		return "", fmt.Errorf("%s has no field tagged index at this node", k.Desc.Name)
	}
	var names []string
	for _, x := range k.Host.Desc.Indexes {
		if names = append(names, x.Field); x.Field != name {
			continue
		}
		b, err := indexKey(x.Kind, value)
		if err != nil {
			return "", fmt.Errorf("%s.%s: %w", k.Desc.Name, name, err)
		}
		if l.Index, l.Field, l.Prefix = x.Kind, name, string(b)+l.Prefix; l.After != "" {
			l.After = string(b) + l.After
		}
		return string(b), nil
	}
	return "", fmt.Errorf("%s has no index on %q (its indexed fields are %s)", k.Desc.Name, clip(name), strings.Join(names, ", "))
}

// indexKey returns the key of a value that an operator has written.
func indexKey(kind, value string) ([]byte, error) {
	field, err := strconv.Atoi(kind[:len(kind)-1])
	if err != nil {
		return nil, err
	}
	switch kind[len(kind)-1] {
	case 's':
		return codegen.AppendStringIndex(nil, field, value), nil
	case 'b':
		v, err := strconv.ParseBool(value)
		return codegen.AppendBoolIndex(nil, field, v), err
	case 't':
		v, err := time.Parse(time.RFC3339Nano, value)
		return codegen.AppendTimeIndex(nil, field, v), err
	}
	if v, err := strconv.ParseUint(value, 10, 64); err == nil {
		return codegen.AppendUintIndex(nil, field, v), nil
	}
	v, err := strconv.ParseInt(value, 10, 64)
	return codegen.AppendIntIndex(nil, field, v), err
}

// dues returns the entities of a type that have reminders, each with its earliest due time.
func (i inspections) dues(ctx context.Context, r *operator.Request) (keys []string, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	k, err := i.reminding(r.Entity.Kind)
	switch {
	case err != nil:
		return nil, false, err
	case r.Command != operator.Reminders:
		return nil, false, errors.New("to cancel or retry a reminder, name its entity")
	}
	return i.page(node.Dues(ctx, k, r.List.After), r.List.Limit)
}

// pauseReminders pauses or resumes the reminders of a durable type.
func (i inspections) pauseReminders(ctx context.Context, r *operator.Request) error {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	k, err := i.reminding(r.Entity.Kind)
	switch {
	case err != nil:
		return err
	case !k.Desc.Durable:
		return fmt.Errorf("reminders of %s are in its nodes' memory and cannot be paused: the type is not durable", clip(r.Entity.Kind))
	case i.node.cfg.Store == nil:
		return errors.New("this node has no store, which keeps the pause (ask a node that hosts the type)")
	}
	var pause *durablehost.Pause
	if r.Command == operator.PauseReminders {
		pause = &durablehost.Pause{Since: time.Now().UTC(), By: clip(r.By)}
	}
	return durablehost.PauseReminders(ctx, i.node.cfg.Store, r.Entity.Kind, pause)
}

// pauseText describes the pause of reminders of the requested type, or says that the store does not
// answer. "" means no pause.
func (i inspections) pauseText(ctx context.Context, r *operator.Request) string {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	if i.node.cfg.Store == nil || r.List.After != "" {
		return ""
	}
	t, _, err := durablehost.ReadType(ctx, i.node.cfg.Store, r.Entity.Kind)
	switch {
	case err != nil && !errors.Is(err, durablehost.ErrVolatile):
		return fmt.Sprintf("the store does not say whether they are paused: %v", err)
	case t.Paused == nil:
		return ""
	}
	return fmt.Sprintf("paused since %s by %s", t.Paused.Since.Format(time.RFC3339), t.Paused.By)
}

func (i inspections) reminding(kind string) (*node.Kind, error) {
	k := (*i.node.driver.Kinds.Load())[kind]
	if k == nil || k.Desc.Singleton {
		return nil, fmt.Errorf("this node knows no entity type %s with reminders (singletons have none; ask a node that hosts it)", clip(kind))
	}
	return k, nil
}

// reminders returns the reminders of an entity, after changing one if the request says so.
func (i inspections) reminders(ctx context.Context, r *operator.Request) ([]operator.Reminder, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	k, err := i.reminding(r.Entity.Kind)
	if err != nil {
		return nil, err
	}
	ref := codegen.NewRef(node.InvokerOf(k), r.Entity.ID, nil)
	if err := ref.Err(); err != nil {
		return nil, err
	}
	if method := map[operator.Command]string{operator.CancelReminder: wire.MethodUnschedule, operator.RetryReminder: wire.MethodRetry}[r.Command]; method != "" {
		there, err := askReminders(ctx, ref, method, []byte(r.Reminder))
		if err != nil {
			return nil, err
		}
		if !slices.Equal(there, []byte{1}) {
			return nil, fmt.Errorf("%s/%s has no reminder %q for that (shardctl reminders lists them)", clip(r.Entity.Kind), clip(r.Entity.ID), clip(r.Reminder))
		}
		i.node.log.Warn("an operator has changed a reminder", "command", r.Command.String(), "kind", r.Entity.Kind, "entity", clip(r.Entity.ID), "name", clip(r.Reminder), "by", r.By)
	}
	all, err := askReminders(ctx, ref, wire.MethodScheduled, nil)
	if err != nil {
		return nil, err
	}
	return operator.DecodeReminders(all)
}

var balances = map[operator.Command]coordinator.Wanted{
	operator.Rebalance: coordinator.WantNow, operator.PauseRebalancing: coordinator.WantPause, operator.ResumeRebalancing: coordinator.WantResume,
}

func (i inspections) balance(ctx context.Context, r *operator.Request) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	var done coordinator.Balanced
	err := inquire(ctx, i.node.control, func(id uint64) bool {
		i.node.control.member.ToCoordinator(coordinator.Balance{ID: id, Want: balances[r.Command], By: r.By})
		return false
	}, func(_ transport.Address, m coordinator.Message) (ok bool) {
		done, ok = m.(coordinator.Balanced)
		return ok
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: the coordinator or a member has not confirmed the request (are all members of this version? Repeating the command does no harm)", err)
	case done.Refusal != "":
		return "", errors.New(done.Refusal)
	}
	return done.Text, nil
}

func (i inspections) facts() *operator.Fact {
	n := i.node
	now := time.Now()
	found, ending := n.judge(now)
	health := healthOf(found, ending)
	link := n.driver.Link()
	f := &operator.Fact{
		Time: now, Started: n.made, Go: runtime.Version(),
		MaxPayload: link.MaxPayload(), Server: link.State(transport.Control).Server,
		Ready: health.Ready, Reasons: health.Reasons, Goroutines: runtime.NumGoroutine(),
		Store: n.cfg.Store != nil, Gateway: n.cfg.Gateway, Findings: found,
	}
	if s, ok := n.cfg.Store.(interface {
		Layout() (name string, replicas int)
	}); ok { // the store is JetStream
		f.StoreName, f.StoreReplicas = s.Layout()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		f.Program, f.Release = strings.TrimSpace(info.Path+" "+info.Main.Version), info.Main.Version
		for _, m := range info.Deps {
			if m.Path == module {
				f.Release = m.Version
			}
		}
	}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	f.Heap, f.Memory, f.Expiries = sample[0].Value.Uint64(), node.MemoryUsed(), n.expiries()
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		f.MemoryLimit = uint64(limit)
	}
	f.Procs = runtime.GOMAXPROCS(0)
	for _, a := range n.driver.Sessions.Addresses() {
		if identity.Of(a.Incarnation) == identity.Client {
			f.Clients = append(f.Clients, a.String())
		}
	}
	slices.Sort(f.Clients)
	f.ClientCount = len(f.Clients)
	f.Clients = f.Clients[:min(f.ClientCount, operator.MaxClients)]
	load := n.driver.Load.Last().Process
	f.Load = &load
	for _, h := range n.hosted() {
		f.Contracts = append(f.Contracts, operator.Contract{
			Kind: h.Desc.Name, Shards: uint32(h.Desc.Shards), Methods: slices.Sorted(maps.Keys(h.Desc.Dispatch)),
			Hash: h.Desc.Contract,
		})
	}
	slices.SortFunc(f.Contracts, func(a, b operator.Contract) int { return strings.Compare(a.Kind, b.Kind) })
	return f
}

// feeds returns the partitions of all feeds, from the store, with the ends of the streams that this node
// may read.
func (i inspections) feeds(ctx context.Context) (all []operator.Feed, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if i.node.cfg.Store == nil {
		return nil, errors.New("this node has no store, which keeps the positions of feeds (ask a node that has one)")
	}
	found, err := feeds.Partitions(ctx, i.node.cfg.Store, "")
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		why := p.Why
		for _, f := range p.Failing {
			why = strings.TrimPrefix(fmt.Sprintf("%s; message %d fails at %s/%s: %s", why, f.Position, f.Kind, clip(f.Entity), f.Why), "; ")
		}
		all = append(all, operator.Feed{
			Feed: p.Feed, Partition: uint32(p.Partition), Stream: p.Stream, Position: p.Position, End: i.end(ctx, p.Feed, p.Partition),
			Waiting: uint32(p.Waiting), Dead: p.Dead, Missed: p.Missed, Node: p.Node, Written: p.At, Why: why,
		})
	}
	return all, nil
}

// end returns the position of a stream's last message, or 0 if this node cannot find out.
func (i inspections) end(ctx context.Context, feed string, partition int) uint64 {
	for _, f := range i.node.feeds {
		if s, ok := f.Source.(stream.Ended); ok && f.Name == feed && partition < f.Source.Partitions() {
			if end, err := s.End(ctx, partition); err == nil {
				return end
			}
		}
	}
	return 0
}

const module = "github.com/shardgen/shardgen"
