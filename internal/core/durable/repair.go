package durable

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// TakeHead returns a head that replaces h and claims the shard under a higher epoch. The shard's
// log and records are kept. It fails if h has the given epoch or a higher one.
func TakeHead(h store.Head, node string, incarnation, epoch uint64) (store.Head, error) {
	was, err := readHead(h)
	if err != nil {
		return store.Head{}, err
	}
	if was.value.GetEpoch() >= epoch {
		return store.Head{}, fmt.Errorf("the shard's head has epoch %d, which is not below the new epoch %d (try again)", was.value.GetEpoch(), epoch)
	}
	c := Config{Node: node, Incarnation: incarnation, Epoch: epoch}
	return was.replace(c, h.Since, was.value.GetGeneration(), was.value.GetParts()).stored, nil
}

// RestoredHead returns the head for a shard whose records were restored from a copy. h is the head
// of the copy, and the records include all commits of the copy's log. If whole is set, the caller
// must then set the head's Since to the position of its claim. If whole is not set, records are
// still missing, and the returned head keeps nodes from opening the shard.
func RestoredHead(h []byte, node string, incarnation, epoch uint64, whole bool) (store.Head, error) {
	was, err := readHead(store.Head{Revision: store.None + 1, Value: h})
	if err != nil {
		return store.Head{}, err
	}
	parts := was.value.GetParts()
	was.value.SinceEpoch = epoch
	if !whole {
		parts++ // the head then names a part that is not there
		was.value.SinceEpoch = 0
	}
	c := Config{Node: node, Incarnation: incarnation, Epoch: epoch}
	return head{value: was.value}.replace(c, 0, was.value.GetGeneration(), parts).stored, nil
}

// Unanchored returns the value of a head for a copy of the shard's log. The copied shard can be
// opened although its log begins or ends with another append than the head expects, and although the head
// was marked as lost.
func Unanchored(value []byte) ([]byte, error) {
	was, err := readHead(store.Head{Revision: store.None + 1, Value: value})
	if err != nil {
		return nil, err
	}
	was.value.SinceEpoch, was.value.Reach, was.value.Lost = 0, 0, nil
	return seal(was.value), nil
}

// CheckBegin checks the first append that was read at or after the head's Since position. It
// returns an error if that append cannot be the first one there, because the store has lost the
// right append or the head. With an error, whole reports whether the log still has its beginning.
// If so, only the head was lost and then written again.
func CheckBegin(h store.Head, first store.Append) (whole bool, err error) {
	decoded, err := readAppend(first.Data)
	if err != nil {
		return true, nil // the log lacks nothing, as far as is known
	}
	was, err := readHead(h)
	if err != nil {
		was = head{h, &wire.DurableHead{}}
	}
	if lacks := was.lacks(first.Position, decoded); lacks != "" {
		return h.Since == store.Start && claimOf(decoded) != nil, fmt.Errorf("%w: %s", errLost, lacks)
	}
	return true, nil
}

// CheckEnd returns an error if log, read from the head's Since position, ends before the append that the head
// needs.
func CheckEnd(h store.Head, log []store.Append) error {
	head, err := readHead(h)
	if err != nil {
		return nil // the damaged head is reported elsewhere
	}
	var counted chain
	reached := false
	for _, a := range log {
		decoded, err := readAppend(a.Data)
		reached = reached || err != nil || counted.add(decoded) && head.reachedBy(decoded) // a damaged append is reported elsewhere
	}
	if lacks := head.ends(reached); lacks != "" {
		return fmt.Errorf("%w: %s", errLost, lacks)
	}
	return nil
}

// HeadBy returns the epoch of a head, and the node that wrote it.
func HeadBy(h store.Head) (epoch uint64, node string, err error) {
	was, err := readHead(h)
	return was.value.GetEpoch(), was.value.GetNode(), err
}

// ClaimAppend returns an append that claims a shard: appends of earlier homes behind it in the log
// are void.
func ClaimAppend(node string, incarnation, epoch uint64) []byte {
	return seal(&wire.DurableAppend{
		Format: formatNow, Epoch: epoch, Incarnation: incarnation, Claim: 1,
		Entries: []*wire.DurableEntry{{Kind: &wire.DurableEntry_Claim{Claim: &wire.DurableClaim{Node: node}}}},
	})
}

// FreshHead returns the value of a head for a shard without a table, which may have records. The head's epoch is at least
// epoch, and at least that of every append in the log.
func FreshHead(node string, incarnation, epoch uint64, log []store.Append) []byte {
	for _, a := range log {
		if decoded, err := readAppend(a.Data); err == nil {
			epoch = max(epoch, decoded.GetEpoch())
		}
	}
	return head{}.replace(Config{Node: node, Incarnation: incarnation, Epoch: epoch}, 0, 1, 0).stored.Value
}

// Undamaged returns the part of a shard that can be opened, given the problems found by Snap:
//   - Undecodable records of entities are left out.
//   - The log ends before the first append that is damaged, or that has a commit of an entity with a problem.
//   - If the head or the table is damaged, the head is new, and the table with its command ids and tells is left out.
//   - Undecodable leaves are left out. With any problem the catalog counts as incomplete: the next home makes it again.
//   - The journal begins behind its last damaged or missing chunk, and its event numbers continue. If its index is
//     damaged, all chunks are left out.
func Undamaged(h store.Head, log []store.Append, records []store.Record, problems []Problem) (store.Head, []store.Append, []store.Record) {
	table, journal := false, false
	entities, chunks := make(map[string]bool), []uint64(nil)
	for _, p := range problems {
		switch {
		case p.Entity != "":
			entities[p.Entity] = true
		case p.at != 0:
			log = slices.DeleteFunc(slices.Clone(log), func(a store.Append) bool { return a.Position >= p.at })
		case p.key == journalKey:
			journal = true
		case isChunk(p.key):
			n, _ := strconv.ParseUint(p.key[len(journalKey):], 10, 64)
			chunks = append(chunks, n)
		case IsLeaf(p.key):
		case p.key != "", p.Place == "head" && !errors.Is(p.Err, errRolledBack):
			table = true
		}
	}
	for i, a := range log {
		if continues(a, entities) {
			log = log[:i]
			break
		}
	}
	if table {
		h.Value, h.Revision = FreshHead("", 1, 1, log), max(h.Revision, store.None+1)
	}
	records = slices.DeleteFunc(slices.Clone(records), func(r store.Record) bool {
		if id, ok := strings.CutPrefix(r.Key, entityKey("")); ok {
			_, err := readRecord(id, r, "")
			return err != nil
		}
		return table && r.Key[0] == 't' || IsLeaf(r.Key) && unseal(r.Value, &wire.DurableLeaf{}) != nil
	})
	for i, r := range records {
		t := &wire.DurableTable{}
		if len(problems) > 0 && r.Key[0] == 't' && unseal(r.Value, t) == nil {
			t.Catalog = false // leaves have the ids of entities that are left out
			records[i].Value = seal(t)
		}
	}
	if journal || len(chunks) > 0 {
		records = journalBehind(chunks, journal, log, records)
	}
	return h, log, records
}

func continues(a store.Append, entities map[string]bool) bool {
	decoded, _ := readAppend(a.Data)
	return slices.ContainsFunc(decoded.GetEntries(), func(e *wire.DurableEntry) bool {
		return e.GetCommit() != nil && entities[string(e.GetCommit().GetEntity())]
	})
}

// journalBehind returns the records with a journal that begins behind the last damaged chunk or,
// if all is set, behind all chunks. Without a readable index, numbers continue behind the last
// readable event, or before the log's first event.
func journalBehind(damaged []uint64, all bool, log []store.Append, records []store.Record) (rest []store.Record) {
	index, counted := &wire.DurableJournal{Format: formatNow, First: 1}, false
	if i := slices.IndexFunc(records, func(r store.Record) bool { return r.Key == journalKey }); i >= 0 {
		if read, err := readIndex(records[i]); err == nil {
			index, counted = read, true
		}
	}
	behind := index.GetFirst() - 1
	for _, chunk := range damaged {
		if chunk <= index.GetLast() {
			behind = max(behind, chunk)
		}
	}
	if all {
		behind = index.GetLast()
	}
	index.First = behind + 1
	last := uint64(0)
	for _, r := range records {
		switch c, err := chunkIn(r); {
		case r.Key == journalKey:
		case !isChunk(r.Key):
			rest = append(rest, r)
		case err == nil:
			last = max(last, c.GetEvents()[len(c.GetEvents())-1].GetNumber())
			if c.GetChunk() > behind && counted {
				rest = append(rest, r)
			}
		}
	}
	if !counted {
		index.Number = max(last, before(log))
	}
	return append(rest, store.Record{Key: journalKey, Revision: store.None + 1, Value: seal(index)})
}

func before(log []store.Append) uint64 {
	for _, a := range log[min(1, len(log)):] { // records have the events of the first
		decoded, _ := readAppend(a.Data)
		for _, e := range decoded.GetEntries() {
			if len(e.GetCommit().GetEvents()) > 0 {
				return e.GetCommit().GetEvent() - 1
			}
		}
	}
	return 0
}
