package natsstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

// headerStreamLast names the expected last sequence of the whole stream.
const headerStreamLast = "Nats-Expected-Last-Sequence"

// aliveFor is how long the store keeps I-am-alives, which only people read: eight days, a day
// longer than the rows of dead members.
const aliveFor = "192h"

// buckets is the number of parts in which a large table is read.
const buckets = 64

// members is a table in a stream, with one message for each row. The table's version is the last
// sequence of the stream, so one message changes both a row and the version. A deletion ends with a
// message on the subject of mark. If a reader finds that message among the changes since its
// version, it reads the whole table. I-am-alives change no version, so they are in another stream.
type members struct {
	*streams
	keys            *keys
	cluster, stream string
	subject         string // prefix of all subjects, with a dot at the end
	ready           atomic.Bool
	large           atomic.Bool // the table had more rows than fit into one answer
}

// Members returns the membership table of a cluster. It implements [membertable.Provider]. The
// table's stream is <Config.Name>_<cluster>_members, and it is created when it is first needed,
// unless Config.NoCreate is set.
func (s *Store) Members(cluster string) membertable.Table {
	return &members{
		streams: s.streams, keys: s.keys, cluster: cluster,
		stream: membersStream(s.streams.cfg.Name, cluster), subject: membersSubject(s.streams.cfg.Name, cluster),
	}
}

func (m *members) mark() string { return m.subject + "mark" }

func (m *members) row(id membertable.ID) string {
	return fmt.Sprintf("%s%d.%s.%016x", m.subject, id.Incarnation%buckets, id.Name, id.Incarnation)
}

func (m *members) alive(id membertable.ID) string {
	return fmt.Sprintf("%s%s/%016x", m.alives(), id.Name, id.Incarnation)
}

func (m *members) alives() string { return m.cluster + "/members/" }

func (m *members) open(ctx context.Context) error {
	if m.ready.Load() {
		return nil
	}
	if err := membertable.CheckName(m.cluster); err != nil {
		return err
	}
	m.creating.Lock()
	defer m.creating.Unlock()
	info, there, err := m.info(ctx, m.stream)
	if err == nil && !there {
		if m.cfg.NoCreate {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, missing(m.stream))
		}
		c := m.recordStream(m.stream, m.subject+">", nil)
		c.FirstSeq = uint64(membertable.First(time.Now()))
		if err = m.create(ctx, c); err == nil {
			info, there, err = m.info(ctx, m.stream)
		}
	}
	if err == nil && !there {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, missing(m.stream))
	}
	if err == nil && !slices.Contains(info.Config.Subjects, m.subject+">") {
		err = fmt.Errorf("%w: stream %s is that of another store: its subjects are %v (use another Config.Name)", store.ErrUnavailable, m.stream, info.Config.Subjects)
	}
	if err == nil && info.State.Messages == 0 {
		_, err = m.publishIdle(ctx, m.stream, message(m.mark(), nil, headerStreamLast, number(info.State.LastSeq)))
		if errors.Is(err, store.ErrConflict) {
			err = nil // another process has published the mark
		}
		if errors.Is(err, store.ErrUncertain) {
			err = unavailable(err) // a mark changes no row
		}
	}
	if err == nil {
		m.ready.Store(true)
	}
	return err
}

// errMoving means that replicas' answers form no single state of the table.
var errMoving = errors.New("replicas lag, or the table changes too fast to be read (try again)")

// Read implements [membertable.Table]. Config.Timeout bounds each of its requests.
func (m *members) Read(ctx context.Context, since membertable.Version) (found membertable.Snapshot, err error) {
	if err = m.open(ctx); err == nil {
		began := time.Now()
		for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
			found, err = m.snapshot(ctx, since)
			if !errors.Is(err, errMoving) || time.Since(began) > m.timeout || !pause(ctx, wait) {
				break
			}
		}
	}
	if err != nil {
		return membertable.Snapshot{}, membertable.Fail(membertable.OpRead, m.cluster, err)
	}
	return found, nil
}

func (m *members) snapshot(ctx context.Context, since membertable.Version) (membertable.Snapshot, error) {
	if since > 0 {
		changed, ok, err := m.changes(ctx, uint64(since))
		if err != nil {
			return membertable.Snapshot{}, err
		}
		if _, deleted := changed.last[m.mark()]; ok && !deleted {
			return m.decoded(changed, since)
		}
	}
	all, err := m.whole(ctx)
	if err != nil {
		return membertable.Snapshot{}, err
	}
	s, err := m.decoded(all, 0)
	if err != nil {
		return membertable.Snapshot{}, err
	}
	return s, m.addAlives(ctx, s.Rows)
}

func (m *members) ask(ctx context.Context, stream string, r getRequest) (p page, err error) {
	err = m.again(ctx, func(ctx context.Context) (bool, error) {
		p, err = m.page(ctx, stream, r)
		return err == nil, err
	})
	return p, err
}

// A part has the last messages of some subjects at sequence upTo.
type part struct {
	last map[string]stored // by subject
	upTo uint64
}

// changes reads the messages after the sequence since from one replica. It returns false if these
// messages do not fit into one answer.
func (m *members) changes(ctx context.Context, since uint64) (part, bool, error) {
	p, err := m.ask(ctx, m.stream, getRequest{Seq: since + 1, Batch: pageMessages, MaxBytes: pageBytes})
	if err != nil {
		return part{}, false, err
	}
	changed := part{make(map[string]stored, len(p.messages)), since}
	changed.add(p.messages)
	if n := len(p.messages); n > 0 {
		changed.upTo = p.messages[n-1].seq
	}
	return changed, !p.more, nil
}

func (p *part) add(all []stored) {
	for _, message := range all {
		if p.last[message.subject].seq < message.seq {
			p.last[message.subject] = message
		}
	}
}

func (m *members) whole(ctx context.Context) (part, error) {
	filters := []string{m.subject + ">"}
	if !m.large.Load() {
		all, err := m.parts(ctx, filters)
		if !errors.Is(err, errTooMany) {
			return all, err
		}
		m.large.Store(true)
	}
	filters = filters[:0]
	for b := range buckets {
		filters = append(filters, fmt.Sprintf("%s%d.>", m.subject, b))
	}
	return m.parts(ctx, filters)
}

// parts reads pages from replicas in different states. Then it reads the changes since the oldest
// page, from a replica at least as new as all pages. Each subject's last message is among the
// changes or on a page.
func (m *members) parts(ctx context.Context, filters []string) (part, error) {
	all := part{last: make(map[string]stored)}
	oldest := uint64(math.MaxUint64)
	for _, filter := range filters {
		for more, from := true, uint64(0); more; {
			p, err := m.ask(ctx, m.stream, getRequest{Seq: from, MultiLast: []string{filter, m.mark()}, MaxBytes: pageBytes})
			if err != nil {
				return part{}, err
			}
			if p.upTo == 0 { // the replica lags so much that it has no mark
				return part{}, m.moving()
			}
			all.add(p.messages)
			all.upTo, oldest = max(all.upTo, p.upTo), min(oldest, p.upTo)
			if more = p.more && len(p.messages) > 0; more {
				from = p.messages[len(p.messages)-1].seq + 1
			}
		}
	}
	if oldest == all.upTo {
		return all, nil
	}
	changed, ok, err := m.changes(ctx, oldest)
	if err == nil && (!ok || changed.upTo < all.upTo) {
		err = m.moving()
	}
	if err != nil {
		return part{}, err
	}
	all.add(slices.Collect(maps.Values(changed.last)))
	all.upTo = changed.upTo
	return all, nil
}

func (m *members) moving() error {
	return fmt.Errorf("%w: stream %s: %w", store.ErrUnavailable, m.stream, errMoving)
}

func (m *members) decoded(p part, since membertable.Version) (membertable.Snapshot, error) {
	s := membertable.Snapshot{Version: membertable.Version(p.upTo), Since: since, Rows: make([]membertable.Row, 0, len(p.last))}
	for message := range maps.Values(p.last) {
		if message.subject == m.mark() || len(message.data) == 0 {
			continue
		}
		row, err := membertable.Decode(message.data)
		if err == nil && m.row(row.ID) != message.subject {
			err = fmt.Errorf("its content is the row of %v", row.ID)
		}
		if err != nil {
			return membertable.Snapshot{}, finalError{fmt.Errorf("%w: stream %s: message %d of %q: %w (delete the message)", store.ErrUnavailable, m.stream, message.seq, message.subject, err)}
		}
		row.Version = membertable.Version(message.seq)
		s.Rows = append(s.Rows, row)
	}
	slices.SortFunc(s.Rows, func(a, b membertable.Row) int { return a.ID.Compare(b.ID) })
	return s, nil
}

// addAlives sets each row's Alive, perhaps from a replica that lags.
func (m *members) addAlives(ctx context.Context, rows []membertable.Row) error {
	at := make(map[string]time.Time)
	filter := keySubject(m.cfg.Name, m.alives()) + ">"
	for more, from := true, uint64(1); more; {
		p, err := m.ask(ctx, m.keys.stream, getRequest{Seq: from, NextFor: filter, Batch: pageMessages, MaxBytes: pageBytes})
		if err != nil {
			return err
		}
		for _, message := range p.messages {
			if t, err := time.Parse(time.RFC3339Nano, string(message.data)); err == nil {
				at[message.subject] = membertable.Time(t)
			}
			from = message.seq + 1
		}
		more = p.more && len(p.messages) > 0
	}
	for i, row := range rows {
		rows[i].Alive = at[keySubject(m.cfg.Name, m.alive(row.ID))]
	}
	return nil
}

// Write implements [membertable.Table].
func (m *members) Write(ctx context.Context, expect membertable.Version, rows ...membertable.Row) (membertable.Version, error) {
	data, err := membertable.EncodeAll(rows)
	if err == nil {
		err = m.open(ctx)
	}
	f := func() []*nats.Msg {
		all := make([]*nats.Msg, 0, len(rows))
		for i, row := range rows {
			all = append(all, message(m.row(row.ID), data[i], headerStream, m.stream))
		}
		all[0].Header[headerStreamLast] = []string{number(expect)} // for the whole batch
		return all
	}
	var seq uint64
	if err == nil {
		seq, err = m.publishBatchIdle(ctx, m.stream, f)
	}
	return membertable.Version(seq), membertable.Fail(membertable.OpWrite, m.cluster, err)
}

// Delete implements [membertable.Table].
func (m *members) Delete(ctx context.Context, expect membertable.Version, ids []membertable.ID) (membertable.Version, error) {
	err := membertable.CheckIDs(ids)
	if err == nil {
		err = m.open(ctx)
	}
	var seq uint64
	if err == nil {
		seq, err = m.publishBatchIdle(ctx, m.stream, func() []*nats.Msg {
			var all []*nats.Msg
			for _, id := range ids {
				all = append(all, message(m.row(id), nil, headerTTL, deletedFor))
			}
			all[0].Header[headerStreamLast] = []string{number(expect)} // for the whole batch
			return append(all, message(m.mark(), nil, headerStream, m.stream))
		})
	}
	return membertable.Version(seq), membertable.Fail(membertable.OpDelete, m.cluster, err)
}

// Alive implements [membertable.Table].
func (m *members) Alive(ctx context.Context, id membertable.ID, at time.Time) error {
	err := membertable.CheckName(id.Name)
	if err == nil {
		err = membertable.CheckName(m.cluster)
	}
	if err == nil {
		text := membertable.Time(at).Format(time.RFC3339Nano)
		_, err = m.publishIdle(ctx, m.keys.stream, message(keySubject(m.cfg.Name, m.alive(id)), []byte(text), headerTTL, aliveFor))
	}
	return membertable.Fail(membertable.OpAlive, m.cluster, err)
}

// membersStream returns the name of a membership stream. The names of types' streams end with a
// number, so none is the same.
func membersStream(name, cluster string) string { return name + "_" + cluster + "_members" }

// membersSubject is the prefix of a membership table's subjects.
func membersSubject(name, cluster string) string {
	return strings.Join([]string{name, "m", cluster, ""}, ".")
}
