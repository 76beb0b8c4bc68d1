package reminders

import (
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/wire"
)

// Bounds of an entity's reminders.
const (
	MaxCount = 64
	MaxBytes = 16 << 10
)

// A List has the reminders of an entity.
type List []*wire.DurableReminder

// Set returns the list with the reminder of a request, in place of one with the same name. version
// is that of the commit that sets the reminder.
func (l List) Set(request *wire.DurableSchedule, entity string, version uint64, now int64) (List, error) {
	m, err := resolve(request, entity, now)
	if err != nil {
		return l, err
	}
	m.Set = version
	all := append(l.Without(m.GetName()), m)
	if len(all) > MaxCount {
		return l, fmt.Errorf("the entity has %d reminders already (cancel some, or let one reminder do the work of several)", MaxCount)
	}
	if n := proto.Size(all.Message()); n > MaxBytes {
		return l, fmt.Errorf("the entity's reminders would have %d bytes, at most %d (keep their arguments in the state)", n, MaxBytes)
	}
	return all, nil
}

// Without returns the list without the reminder of the given name.
func (l List) Without(name string) List {
	return slices.DeleteFunc(slices.Clone(l), func(m *wire.DurableReminder) bool { return m.GetName() == name })
}

// Replaced returns the list with next in place of fired, a reminder that has fired; a nil next only
// removes fired. If the list no longer has fired, it stays as it is.
func (l List) Replaced(fired, next *wire.DurableReminder) List {
	i := slices.Index(l, fired)
	switch {
	case i < 0:
		return l
	case next == nil:
		return slices.Delete(slices.Clone(l), i, i+1)
	}
	l = slices.Clone(l)
	l[i] = next
	return l
}

// Retried returns the list with the named reminder, which was given up, due again. It returns false
// if no reminder of that name was given up.
func (l List) Retried(name string) (List, bool) {
	for _, m := range l {
		if m.GetName() == name && m.GetAside() != "" {
			again := proto.Clone(m).(*wire.DurableReminder)
			again.Aside, again.SkipLate = "", 0 // it runs although it is late
			return l.Replaced(m, again), true
		}
	}
	return l, false
}

// Never is the due time of a list in which nothing is due.
const Never = math.MaxInt64

// Due returns the earliest due time, or Never.
func (l List) Due() int64 {
	due := int64(Never)
	for _, m := range l {
		if m.GetAside() == "" {
			due = min(due, max(m.GetDue(), 1))
		}
	}
	return due
}

// Message returns the list in the form in which commits store it.
func (l List) Message() *wire.DurableReminders { return &wire.DurableReminders{All: l} }

// Encode encodes a request, or the reminders of an entity.
func Encode(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // Request has checked its texts
	}
	return b
}

// DecodeList decodes the reminders of an entity.
func DecodeList(b []byte) (List, error) {
	all := &wire.DurableReminders{}
	if err := proto.Unmarshal(b, all); err != nil {
		return nil, fmt.Errorf("the reminders cannot be read: %w", err)
	}
	return all.GetAll(), nil
}

// Decode decodes a request to set a reminder.
func Decode(b []byte) (*wire.DurableSchedule, error) {
	request := &wire.DurableSchedule{}
	if err := proto.Unmarshal(b, request); err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	if request.GetReminder() == nil {
		return nil, fmt.Errorf("the request has no reminder")
	}
	return request, nil
}

// resolve returns the reminder that a request of entity sets at the time now.
func resolve(request *wire.DurableSchedule, entity string, now int64) (*wire.DurableReminder, error) {
	m := proto.Clone(request.GetReminder()).(*wire.DurableReminder)
	if m.GetName() == "" {
		m.Name = m.GetMethod()
	}
	if request.GetAfter() != 0 {
		m.Due = now + request.GetAfter()
	}
	m.Jitter = schedule.Spread(duration(m.GetJitter()), entity, m.GetName()).Milliseconds()
	due, err := scheduleOf(m).First(time.UnixMilli(now))
	if err != nil {
		return nil, err
	}
	m.Due = max(due.UnixMilli(), 1) // 0 means none
	return m, nil
}

// Check returns an error if the name or the schedule in a request is not valid.
func Check(request *wire.DurableSchedule) error {
	if name := request.GetReminder().GetName(); !utf8.ValidString(name) {
		return fmt.Errorf("schedule: the name %q is not valid UTF-8", name) // the store could not keep it
	}
	s := scheduleOf(request.GetReminder())
	if request.GetAfter() != 0 {
		s.Due = time.UnixMilli(request.GetAfter())
	}
	return s.Check()
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func scheduleOf(m *wire.DurableReminder) schedule.Schedule {
	s := schedule.Schedule{
		Kind: schedule.Kind(m.GetKind()), Period: duration(m.GetPeriod()), Cron: m.GetCron(), Zone: m.GetZone(),
		Jitter: duration(m.GetJitter()), CatchUp: m.GetCatchUp(), SkipLate: duration(m.GetSkipLate()),
	}
	if m.GetDue() != 0 {
		s.Due = time.UnixMilli(m.GetDue())
	}
	return s
}
