package durablehost

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// An ID is a command's id in the form in which it travels with a call. The zero ID means that the
// call is no command.
type ID struct {
	Source uint64 // incarnation of the process that made the command; 0 means the sender of the call
	Number uint64 // number among the source's commands, from 1 on
	Floor  uint64 // lowest number of the source's unfinished commands
	// Past and Stuck are as in [durable.Command].
	Past  uint64
	Stuck durable.Numbers
	Path  durable.Path
	Key   string // the user's key, which replaces all other fields; "" means none
	// Log is the shard whose log stores a tell. It is the source of that tell, and of calls made by
	// the tell's turn. For those calls To is the tell's receiver. Both are zero if the source is a
	// process.
	Log, To durable.Target
}

// Field numbers of an encoded ID. ReadID skips unknown fields.
const (
	idSource  = 1
	idNumber  = 2
	idFloor   = 3
	idPath    = 4
	idKey     = 5
	idLog     = 6
	idShard   = 7
	idTo      = 8
	idToShard = 9
	idPast    = 10
	idStuck   = 11
)

// idBytes is usually enough for an encoded ID without its strings.
const idBytes = 40

// IsZero reports whether the ID means no command.
func (id *ID) IsZero() bool { return id.Number == 0 && id.Key == "" }

// Append appends the encoded ID to b.
func (id ID) Append(b []byte) []byte {
	b = slices.Grow(b, idBytes+len(id.Path)+len(id.Key)+len(id.Log.Log)+len(id.To.Log)+len(id.Stuck))
	number := func(field protowire.Number, v uint64) {
		if v != 0 {
			b = protowire.AppendTag(b, field, protowire.VarintType)
			b = protowire.AppendVarint(b, v)
		}
	}
	text := func(field protowire.Number, v string) {
		if v != "" {
			b = protowire.AppendTag(b, field, protowire.BytesType)
			b = protowire.AppendString(b, v)
		}
	}
	number(idSource, id.Source)
	number(idNumber, id.Number)
	number(idFloor, id.Floor)
	text(idPath, string(id.Path))
	text(idKey, id.Key)
	text(idLog, id.Log.Log)
	number(idShard, uint64(id.Log.Shard))
	text(idTo, id.To.Log)
	number(idToShard, uint64(id.To.Shard))
	number(idPast, id.Past)
	text(idStuck, string(id.Stuck))
	return b
}

// ReadID decodes an ID.
func ReadID(b []byte) (id ID, err error) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ID{}, fmt.Errorf("command id: %w", protowire.ParseError(n))
		}
		b = b[n:]
		var v uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return ID{}, fmt.Errorf("command id: %w", protowire.ParseError(n))
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			id.number(field, v)
		case protowire.BytesType:
			id.text(field, string(text))
		default:
		}
	}
	if !utf8.ValidString(id.Log.Log) || !utf8.ValidString(id.To.Log) { // names of types, which commits hold as text
		return ID{}, fmt.Errorf("command id: its log %q or receiver %q is not UTF-8", id.Log.Log, id.To.Log)
	}
	if id.Floor > id.Number {
		return ID{}, fmt.Errorf("command id: its floor %d is above its number %d", id.Floor, id.Number)
	}
	if _, err := id.Stuck.Slice(); err != nil {
		return ID{}, fmt.Errorf("command id: %w", err)
	}
	return id, nil
}

func (id *ID) number(field protowire.Number, v uint64) {
	switch field {
	case idSource:
		id.Source = v
	case idNumber:
		id.Number = v
	case idFloor:
		id.Floor = v
	case idShard:
		id.Log.Shard = uint32(v)
	case idPast:
		id.Past = v
	case idToShard:
		id.To.Shard = uint32(v)
	}
}

func (id *ID) text(field protowire.Number, v string) {
	switch field {
	case idPath:
		id.Path = durable.Path(v)
	case idKey:
		id.Key = v
	case idStuck:
		id.Stuck = durable.Numbers(v)
	case idLog:
		id.Log.Log = v
	case idTo:
		id.To.Log = v
	}
}

// keySource is the Incarnation of all sources derived from a user's key. Their Log is not empty,
// unlike that of a process that happens to have this incarnation (1 in 2^64).
const keySource = 1

// Command sets c, which must be zero, to the command with this ID. sender is the incarnation of the
// process that sent the call.
func (id *ID) Command(c *durable.Command, sender uint64, entity, method string, args []byte) {
	c.Hash = hashOf(entity, method, args)
	if id.Key != "" {
		id.keyed(c, entity)
		return
	}
	c.Number, c.Floor, c.Path, c.Past, c.Stuck = id.Number, id.Floor, id.Path, id.Past, id.Stuck
	switch {
	case id.Log.Log != "":
		c.Source.Log, c.Source.Shard, c.Source.To = id.Log.Log, id.Log.Shard, id.To
	case id.Source != 0:
		c.Source.Incarnation = id.Source
	default:
		c.Source.Incarnation = sender
	}
}

func (id *ID) keyed(c *durable.Command, entity string) {
	sum := keySum(entity, id.Key)
	c.Source = durable.Source{Incarnation: keySource, Log: hex.EncodeToString(sum[:])}
	c.Key = string(sum[:keySize])
	c.Number, c.Floor = 1, 1
}

const keySize = 16

func keySum(entity, key string) [sha256.Size]byte {
	return sha256.Sum256(append(binary.AppendUvarint(nil, uint64(len(entity))), entity+key...))
}

// Nested returns the ID of a call that the turn of command c makes. at is the shard where that turn
// runs.
func Nested(c durable.Command, at durable.Target, calls *durable.Calls, kind, entity, method string) ID {
	path := calls.Path(c.Path, kind+"/"+entity, method)
	id := ID{Number: c.Number, Floor: c.Floor, Path: path}
	switch s := c.Source; {
	case s.Incarnation == keySource: // a key's: its calls have keys too
		return ID{Key: s.Log + "/" + string(path)}
	case s.Incarnation != 0:
		id.Source = s.Incarnation
	default:
		id.Log, id.To = durable.Target{Log: s.Log, Shard: s.Shard}, s.To
		if id.To == (durable.Target{}) { // c is the tell itself
			id.To = at
		}
	}
	return id
}

// hashOf returns the hash of a call: each of its strings with its length, then its arguments.
func hashOf(entity, method string, args []byte) uint64 {
	var room [128]byte // enough for most calls
	b := append(binary.AppendUvarint(room[:0], uint64(len(entity))), entity...)
	b = append(binary.AppendUvarint(b, uint64(len(method))), method...)
	if len(b)+len(args) <= len(room) {
		return xxhash.Sum64(append(b, args...))
	}
	return hashOfMany(b, args)
}

func hashOfMany(head, rest []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write(head)
	_, _ = d.Write(rest)
	return d.Sum64()
}

// maxLag bounds the finished commands that a shard remembers for one unfinished lower command.
// Beyond it, that command is set aside as stuck: see [Source].
const maxLag = 4096

// A Source numbers the commands of one process, and records which commands are unfinished. A shard
// remembers the finished commands above the lowest unfinished one. To limit their number, a Source
// sets up to [durable.MaxStuck] long-running commands aside as stuck. The zero value is ready for
// use. A Source is safe for concurrent use.
//
// Invariants:
//  1. A number up to floor is finished, unless it is stuck.
//  2. Stuck numbers are ascending, at most floor, and not finished.
type Source struct {
	mu    sync.Mutex
	floor uint64
	done  []bool // whether floor+1, floor+2, … are finished
	first int    // index of floor+1 in done
	ended int    // number of finished commands in done, from first on
	stuck []uint64
	coded durable.Numbers // stuck, encoded
}

// Begin sets id, which must be zero, to the id of a new command.
func (s *Source) Begin(id *ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, false)
	id.Number = s.floor + uint64(len(s.done)-s.first)
	s.update(id)
}

// Update updates Floor, Past and Stuck of an ID. These fields say which commands are finished.
func (s *Source) Update(id *ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(id)
}

func (s *Source) update(id *ID) {
	id.Floor, id.Past, id.Stuck = s.floor+1, 0, ""
	if len(s.stuck) > 0 {
		id.Floor, id.Past, id.Stuck = s.stuck[0], s.floor+1, s.coded
	}
}

// End records that a command is finished, because its caller does not wait for it any more.
func (s *Source) End(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, stuck := slices.BinarySearch(s.stuck, number); stuck {
		s.stuck = slices.Delete(s.stuck, i, i+1)
		s.coded = durable.NumbersOf(s.stuck)
	} else if number > s.floor {
		if i := s.first + int(number-s.floor) - 1; !s.done[i] {
			s.done[i] = true
			s.ended++
		}
	}
	s.advance()
}

// advance raises the floor past finished numbers, and past those it sets aside as stuck.
func (s *Source) advance() {
	for s.first < len(s.done) {
		switch {
		case s.done[s.first]:
			s.ended--
		case s.ended >= maxLag && len(s.stuck) < durable.MaxStuck:
			s.stuck = append(s.stuck, s.floor+1)
			s.coded = durable.NumbersOf(s.stuck)
		default:
			s.compact()
			return
		}
		s.first++
		s.floor++
	}
	s.compact()
}

// compact drops finished numbers once they are more than half of done, so that each is moved once
// on average.
func (s *Source) compact() {
	if s.first > len(s.done)/2 {
		s.done = append(s.done[:0], s.done[s.first:]...)
		s.first = 0
	}
}
