package feeds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardgen/shardgen/store"
)

// A Record is the stored state of one partition of a feed.
type Record struct {
	Format int    `json:"format"` // 1
	Stream string `json:"stream"` // the identity of the stream
	// Position is the position of the first message that is not finished.
	Position uint64    `json:"position"`
	Rewinds  uint64    `json:"rewinds,omitempty"` // how often an operator has set Position
	Replays  uint64    `json:"replays,omitempty"` // when an operator asked last to apply messages once more, in Unix milliseconds
	Missed   uint64    `json:"missed,omitempty"`  // messages that were deleted unread
	Dead     uint64    `json:"dead,omitempty"`    // dead letters that are stored
	Node     string    `json:"node"`              // the node that reads the partition
	At       time.Time `json:"at"`
	Waiting  int       `json:"waiting,omitempty"` // tells that are read and not finished
	Failing  []Failing `json:"failing,omitempty"` // a few tells that keep failing at their receivers
	Why      string    `json:"why,omitempty"`     // why the partition is not read
	// Requeued are the dead letters that must be applied again, in order of their numbers. Number
	// is the highest number that a requeued letter ever had. The first number is a time in Unix
	// milliseconds, so that none is used again after the record was deleted.
	Requeued []Requeued `json:"requeued,omitempty"`
	Number   uint64     `json:"number,omitempty"`
}

// A Failing describes a tell that keeps failing at its receiver.
type Failing struct {
	Position uint64 `json:"position"`
	Kind     string `json:"kind"`
	Entity   string `json:"entity"`
	Why      string `json:"why"`
}

// A Requeued is a dead letter that must be applied again.
type Requeued struct {
	Letter string `json:"letter"` // the last part of its key
	Number uint64 `json:"number"` // number of the command that applies the letter
}

// A Letter is a dead letter: a message of a stream that was given up, or one of the tells that such
// a message became.
type Letter struct {
	Format    int                 `json:"format"`         // 1
	Name      string              `json:"name,omitempty"` // the last part of its key; set by ParseLetter
	Feed      string              `json:"feed"`
	Partition int                 `json:"partition"`
	Stream    string              `json:"stream"`
	Position  uint64              `json:"position"`
	Part      int                 `json:"part"` // which of the message's tells, from 0 on
	Subject   string              `json:"subject"`
	Header    map[string][]string `json:"header,omitempty"`
	Binary    map[string][][]byte `json:"binary_header,omitempty"` // the headers that are not UTF-8
	Time      time.Time           `json:"time"`
	Data      []byte              `json:"data,omitempty"`
	// Left means that Data is left out: it is too large, or the stream did not have it any more.
	Left   bool      `json:"left_out,omitempty"`
	Kind   string    `json:"kind,omitempty"`   // the receiver's type; "" if the function failed
	Entity string    `json:"entity,omitempty"` // the receiver
	Method string    `json:"method,omitempty"`
	Why    string    `json:"why"`
	At     time.Time `json:"at"` // when the message was given up
}

// setHeader sets the headers of the message.
func (l *Letter) setHeader(all map[string][]string) {
	l.Header, l.Binary = maps.Clone(all), nil
	for name, values := range all {
		if !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			continue
		}
		if l.Binary == nil {
			l.Binary = map[string][][]byte{}
		}
		delete(l.Header, name)
		for _, v := range values {
			l.Binary[name] = append(l.Binary[name], []byte(v))
		}
	}
}

const format = 1

// maxLetterData bounds the data in a letter. Encoded as base64, the data fits into a record with
// the letter's other fields.
const maxLetterData = store.MaxValue / 2

// Root is the prefix of the keys of all feeds.
const Root = "feeds/"

// RecordKey returns the key of a partition's record.
func RecordKey(feed string, partition int) string {
	return fmt.Sprintf("%s%s/at/%d", Root, feed, partition)
}

// LetterPrefix returns the prefix of the keys of a feed's dead letters.
func LetterPrefix(feed string) string { return Root + feed + "/dead/" }

// LetterName returns the last part of the key of the first letter with this number. If the stream
// is made again, its positions begin again. A later letter with the same number has a suffix, such
// as "-2".
func LetterName(partition int, number uint64) string { return fmt.Sprintf("%d-%d", partition, number) }

// LetterKey returns the key of a letter.
func LetterKey(feed, name string) string { return LetterPrefix(feed) + name }

// LoadRecord reads the record of a partition. If there is no record, it returns a zero Record.
func LoadRecord(ctx context.Context, s store.Store, feed string, partition int) (r Record, at store.Revision, err error) {
	found, err := s.Get(ctx, RecordKey(feed, partition))
	if errors.Is(err, store.ErrNotFound) {
		return r, store.None, nil
	} else if err != nil {
		return r, store.None, err
	}
	err = unmarshal(found, &r.Format, &r)
	return r, found.Revision, err
}

// SaveRecord writes the record of a partition. It fails with store.ErrConflict unless at is the
// stored record's revision.
func SaveRecord(ctx context.Context, s store.Store, feed string, partition int, r Record, at store.Revision) (store.Revision, error) {
	r.Format = format
	value, err := json.Marshal(r)
	if err != nil {
		return store.None, err
	}
	return s.Put(ctx, RecordKey(feed, partition), value, at)
}

// ParseLetter decodes a letter's record.
func ParseLetter(found store.Record) (l Letter, err error) {
	err = unmarshal(found, &l.Format, &l)
	l.Name = found.Key[strings.LastIndexByte(found.Key, '/')+1:]
	return l, err
}

// ErrFormat means that a newer program has written a record, which this program cannot read.
var ErrFormat = errors.New("a newer program has written the record")

func unmarshal(found store.Record, has *int, into any) error {
	if err := json.Unmarshal(found.Value, into); err != nil {
		return fmt.Errorf("record %q of the store is damaged: %w (restore it, or delete it to begin again)", found.Key, err)
	}
	if *has > format {
		return fmt.Errorf("record %q of the store: %w: it has format %d, and this program reads %d (run the newer program here too)", found.Key, ErrFormat, *has, format)
	}
	return nil
}

// errNoRecord means that nobody has read a partition for a second.
var errNoRecord = errors.New("it has no position yet (shardctl feeds lists the feeds; a new one stores its position within a second)")

// Change applies the function change to the record of a partition, and stores the result by
// compare-and-set. If another writer was faster, it begins again with the new record. If the
// function fails, Change returns the function's error. Change does not make a record: the reader
// would take it for another's and begin again.
func Change(ctx context.Context, s store.Store, feed string, partition int, change func(*Record) error) error {
	for {
		r, at, err := LoadRecord(ctx, s, feed, partition)
		if err != nil {
			return err
		}
		if r.Format == 0 {
			return fmt.Errorf("feed %s, partition %d: %w", feed, partition, errNoRecord)
		}
		if err := change(&r); err != nil {
			return err
		}
		if _, err = SaveRecord(ctx, s, feed, partition, r, at); !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Requeue makes the feed apply a dead letter again, as a new command. A letter that is already
// requeued stays as it is.
func Requeue(ctx context.Context, s store.Store, feed, name string) error {
	found, err := s.Get(ctx, LetterKey(feed, name))
	if err != nil {
		return err
	}
	l, err := ParseLetter(found)
	switch {
	case err != nil:
		return err
	case l.Left:
		return fmt.Errorf("letter %s has no data, because it is too large for a letter or was deleted from the stream (publish the message again, and drop the letter)", name)
	}
	return Change(ctx, s, feed, l.Partition, func(r *Record) error {
		if !slices.ContainsFunc(r.Requeued, func(q Requeued) bool { return q.Letter == name }) {
			if r.Number++; r.Number == 1 {
				r.Number = uint64(time.Now().UnixMilli())
			}
			r.Requeued = append(r.Requeued, Requeued{name, r.Number})
		}
		return nil
	})
}

// A Partition is a partition of a feed as an operator sees it.
type Partition struct {
	Feed      string `json:"feed"`
	Partition int    `json:"partition"`
	Record
}

// Partitions returns all partitions that were ever read of the given feed. If feed is "", it
// returns those of all feeds.
func Partitions(ctx context.Context, s store.Store, feed string) (all []Partition, err error) {
	prefix := Root
	if feed != "" {
		prefix += feed + "/at/"
	}
	found, err := s.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		p := Partition{}
		parts := strings.Split(f.Key, "/")
		if len(parts) != 4 || parts[2] != "at" {
			continue
		}
		if p.Partition, err = strconv.Atoi(parts[3]); err != nil {
			continue
		}
		if p.Feed = parts[1]; err == nil {
			err = unmarshal(f, &p.Format, &p.Record)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Feed, b.Feed), cmp.Compare(a.Partition, b.Partition))
	})
	return all, nil
}

// Letters returns the dead letters of a feed, in order of their partitions and positions.
func Letters(ctx context.Context, s store.Store, feed string) (all []Letter, err error) {
	found, err := s.List(ctx, LetterPrefix(feed))
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		l, err := ParseLetter(f)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b Letter) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Position, b.Position), cmp.Compare(a.Part, b.Part))
	})
	return all, nil
}

// Drop deletes a dead letter.
func Drop(ctx context.Context, s store.Store, feed, name string) error {
	found, err := s.Get(ctx, LetterKey(feed, name))
	if err != nil {
		return err
	}
	l, err := ParseLetter(found)
	if err == nil {
		err = s.Delete(ctx, found.Key, found.Revision)
	}
	if err != nil {
		return err
	}
	err = Change(ctx, s, feed, l.Partition, func(r *Record) error {
		r.Dead -= min(r.Dead, 1)
		return nil
	})
	if errors.Is(err, errNoRecord) {
		return nil // there is no count
	}
	return err
}

// Rewind makes the feed read a partition again from a position on. Receivers do not apply messages
// again that they have already applied. If replay is set, each message is applied once more.
func Rewind(ctx context.Context, s store.Store, feed string, partition int, position uint64, replay bool) error {
	return Change(ctx, s, feed, partition, func(r *Record) error {
		r.Position, r.Rewinds = position, r.Rewinds+1
		if replay {
			r.Replays = max(r.Replays+1, uint64(time.Now().UnixMilli()))
		}
		return nil
	})
}
