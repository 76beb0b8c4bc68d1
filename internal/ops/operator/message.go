package operator

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A Request is a command with its arguments.
type Request struct {
	Command Command           // the request
	Node    transport.Address // the member that the command concerns; of Join only the name counts
	Seeds   []string          // of Join: names to join through; empty means the process's own
	Force   bool              // of Down: also a member that is up and reachable
	Entity  Entity            // of State, Inspect, Where and Place: which entity; of SetState also its new state; of Shards only the Kind, or ""
	After   uint64            // of Events: the number of the last line that is known; of Trends: seconds after 1970, only minutes that begin later
	Home    string            // of Place and MoveShard: the name of a node; of Place "" means the pin is withdrawn
	List    Listing           // of List, and of Reminders without an id: which ids of the type Entity.Kind
	// Reminder is the name of the reminder of CancelReminder and RetryReminder.
	Reminder string
	Count    uint32 // of SizePool: instances of the pool Entity.Kind; 0 means as many as the load needs; of MoveShard: the number of the shard
	By       string // the operator, as the broker says; it is not encoded
}

// A Listing says which ids of a type to list. Its zero value means all.
type Listing struct {
	Prefix string // what the ids begin with, as on the wire
	After  string // only ids above this one; "" means from the first one on
	Limit  int    // greatest number of ids; 0 means as many as one answer may have
	Active bool   // only of entities that are active
	Where  string // only of entities with a value of an indexed field, such as "State=open"; "" means all
}

// An Answer is the answer to a request.
type Answer struct {
	Refusal string // why the request was not obeyed; empty means that it was
	View    View   // of the answering member, afterwards
	// Entities answer State, SetState and Inspect. If an entity's Node is not the answering member,
	// send the request to that node.
	Entities []Entity
	Types    []Type            // the answer to Shards, in order of their names
	Where    Home              // the answer to Where
	Counters map[string]uint64 // the answer to Counters: the counts above 0, by reason
	Lines    []Line            // the answer to Events, the oldest first
	Last     uint64            // the answer to Events: the number of the last line that there is; to Trends: seconds after 1970 at which the last minute began
	Moves    []Move            // the answer to Moves, the earliest first
	Turns    *TurnReport       // the answer to Turns
	Facts    *Fact             // the answer to Facts
	Result   string            // a text for people: the answer to commands that pause or resume, to Rebalance, and to Reminders without an id
	IDs      []string          // the answer to List, or the [wire.DueKey]s to Reminders without an id, ascending
	More     bool              // there are further ids above the last one in IDs
	// Reminders are the answer to Reminders or, with their new state, to CancelReminder and
	// RetryReminder.
	Reminders []Reminder
	Minutes   []Minute // the answer to Trends, the oldest first
	Feeds     []Feed   // the answer to Feeds, in order of names and partitions
}

// A Reminder is a reminder that an entity has.
type Reminder struct {
	Name   string
	Method string
	Due    time.Time     // the next due time
	Every  time.Duration // its period; 0 means none
	Cron   string        // "" means none
	Zone   string        // of Cron
	// GivenUp is why the reminder does not run any more. "" means that it does.
	GivenUp string
}

// DecodeReminders decodes the reminders of an entity, in the form in which the entity's home sends
// them.
func DecodeReminders(b []byte) ([]Reminder, error) {
	all, err := reminders.DecodeList(b)
	if err != nil {
		return nil, fmt.Errorf("decode reminders: %w", err)
	}
	return RemindersOf(all), nil
}

// RemindersOf returns stored reminders as users and operators see them.
func RemindersOf(stored []*wire.DurableReminder) (all []Reminder) {
	for _, r := range stored {
		all = append(all, Reminder{
			r.GetName(), r.GetMethod(), time.UnixMilli(r.GetDue()).UTC(), time.Duration(r.GetPeriod()) * time.Millisecond, r.GetCron(), r.GetZone(), r.GetAside(),
		})
	}
	return all
}

func (a *Answer) remindersToWire() []byte {
	if len(a.Reminders) == 0 {
		return nil
	}
	m := &wire.DurableReminders{}
	for _, r := range a.Reminders {
		m.All = append(m.All, &wire.DurableReminder{
			Name: r.Name, Method: r.Method, Due: r.Due.UnixMilli(), Period: r.Every.Milliseconds(), Cron: r.Cron, Zone: r.Zone, Aside: r.GivenUp,
		})
	}
	b, _ := proto.Marshal(m) // its texts come from such a message
	return b
}

// Encode encodes a request, or the answer to the request with that id, as internal/wire/admin.proto
// describes. Exactly one of r and a must be non-nil.
func Encode(id uint64, r *Request, a *Answer) ([]byte, error) {
	if (r == nil) == (a == nil) {
		return nil, errors.New("encode admin message: want either a request or an answer")
	}
	m := &wire.Admin{Id: id}
	if r != nil {
		m.Request = &wire.AdminRequest{
			Command: wire.AdminCommand(r.Command), Count: r.Count, Node: toWire(r.Node), Seeds: r.Seeds, Force: r.Force,
			After: r.After, Home: r.Home, Reminder: r.Reminder,
		}
		if !r.Entity.isZero() {
			m.Request.Entity = r.Entity.toWire()
		}
		if l := r.List; l != (Listing{}) {
			m.Request.List = &wire.AdminList{Prefix: []byte(l.Prefix), After: []byte(l.After), Limit: uint32(l.Limit), Active: l.Active, Where: l.Where}
		}
	}
	if a != nil {
		m.Answer = &wire.AdminAnswer{Refusal: a.Refusal, View: a.View.toWire()}
		for _, e := range a.Entities {
			m.Answer.Entities = append(m.Answer.Entities, e.toWire())
		}
		for _, t := range a.Types {
			m.Answer.Types = append(m.Answer.Types, t.toWire())
		}
		m.Answer.Place, m.Answer.Counters = a.Where.toWire(), a.Counters
		a.linesToWire(m.Answer)
		for _, v := range a.Moves {
			m.Answer.Moves = append(m.Answer.Moves, v.toWire())
		}
		m.Answer.Turns, m.Answer.Facts, m.Answer.Result = turnsToWire(a.Turns), a.Facts.toWire(), a.Result
		for _, id := range a.IDs {
			m.Answer.Ids = append(m.Answer.Ids, []byte(id))
		}
		m.Answer.More, m.Answer.Reminders = a.More, a.remindersToWire()
		m.Answer.Minutes, m.Answer.Feeds = minutesToWire(a.Minutes), feedsToWire(a.Feeds)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode admin message: %w", err)
	}
	return b, nil
}

// Decode decodes a message that Encode encoded. The message is a request, and then a is nil, or an
// answer, and then r is nil. For bytes that are neither, Decode returns an error; it never panics.
func Decode(b []byte) (id uint64, r *Request, a *Answer, err error) {
	var m wire.Admin
	if err := proto.Unmarshal(b, &m); err != nil {
		return 0, nil, nil, fmt.Errorf("decode admin message: %w", err)
	}
	switch q := m.GetRequest(); {
	case (q == nil) == (m.GetAnswer() == nil):
		return 0, nil, nil, errors.New("decode admin message: neither a request nor an answer (is the sender newer?)")
	case q != nil:
		l := q.GetList()
		return m.GetId(), &Request{
			List:    Listing{string(l.GetPrefix()), string(l.GetAfter()), int(l.GetLimit()), l.GetActive(), l.GetWhere()},
			Command: Command(q.GetCommand()), Count: q.GetCount(), Node: fromWire(q.GetNode()), Seeds: q.GetSeeds(), Force: q.GetForce(),
			Entity: entityFromWire(q.GetEntity()), After: q.GetAfter(), Home: q.GetHome(), Reminder: q.GetReminder(),
		}, nil, nil
	}
	a = &Answer{Refusal: m.GetAnswer().GetRefusal(), View: viewFromWire(m.GetAnswer().GetView())}
	for _, e := range m.GetAnswer().GetEntities() {
		a.Entities = append(a.Entities, entityFromWire(e))
	}
	for _, t := range m.GetAnswer().GetTypes() {
		a.Types = append(a.Types, typeFromWire(t))
	}
	a.Where = homeFromWire(m.GetAnswer().GetPlace())
	a.linesFromWire(m.GetAnswer())
	for _, v := range m.GetAnswer().GetMoves() {
		a.Moves = append(a.Moves, moveFromWire(v))
	}
	a.Turns, a.Facts = turnsFromWire(m.GetAnswer().GetTurns()), factsFromWire(m.GetAnswer().GetFacts())
	a.Result, a.More = m.GetAnswer().GetResult(), m.GetAnswer().GetMore()
	for _, id := range m.GetAnswer().GetIds() {
		a.IDs = append(a.IDs, string(id))
	}
	if a.Reminders, err = DecodeReminders(m.GetAnswer().GetReminders()); err != nil {
		return 0, nil, nil, err
	}
	a.Minutes, a.Feeds = minutesFromWire(m.GetAnswer().GetMinutes()), feedsFromWire(m.GetAnswer().GetFeeds())
	if c := m.GetAnswer().GetCounters(); len(c) > 0 {
		a.Counters = c
	}
	return m.GetId(), nil, a, nil
}

func (a *Answer) linesToWire(to *wire.AdminAnswer) {
	for _, l := range a.Lines {
		to.Lines = append(to.Lines, &wire.AdminLine{
			Seq: l.Seq, Time: uint64(l.Time.UnixNano()), Level: int32(l.Level), Text: l.Text, Attrs: l.Attrs,
		})
	}
	to.Last = a.Last
}

func (a *Answer) linesFromWire(w *wire.AdminAnswer) {
	for _, l := range w.GetLines() {
		a.Lines = append(a.Lines, Line{
			Seq: l.GetSeq(), Time: fromNanos(l.GetTime()), Level: slog.Level(l.GetLevel()), Text: l.GetText(), Attrs: l.GetAttrs(),
		})
	}
	a.Last = w.GetLast()
}

func toWire(a transport.Address) *wire.AdminNode {
	if a.IsZero() {
		return nil
	}
	return &wire.AdminNode{Name: a.Name, Incarnation: a.Incarnation}
}

func fromWire(n *wire.AdminNode) transport.Address {
	return transport.Address{Name: n.GetName(), Incarnation: n.GetIncarnation()}
}

// fromNanos converts nanoseconds since 1970; 0 is the zero time.
func fromNanos(n uint64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(n))
}

func toNanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}
