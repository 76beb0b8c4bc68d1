package durable

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// TakeHead returns the head that claims the shard in the place of h, under a higher epoch.
// Its log and records stay.
func TakeHead(h store.Head, node string, incarnation, epoch uint64) (store.Head, error) {
	was, err := readHead(h)
	if err != nil {
		return store.Head{}, err
	}
	if was.value.GetEpoch() >= epoch {
		return store.Head{}, fmt.Errorf("the shard has epoch %d, and %d was to follow it (try again)", was.value.GetEpoch(), epoch)
	}
	c := Config{Node: node, Incarnation: incarnation, Epoch: epoch}
	return was.replace(c, h.Since, was.value.GetGeneration(), was.value.GetParts()).stored, nil
}

// RestoredHead returns the head of a shard whose records are restored from a copy: h was the head
// of the copy, which had nothing in its log that its records lack. If whole, since is to be the position
// of the writer's claim. Otherwise the shard cannot be opened, for records are still missing.
func RestoredHead(h []byte, node string, incarnation, epoch uint64, whole bool) (store.Head, error) {
	was, err := readHead(store.Head{Revision: store.None + 1, Value: h})
	if err != nil {
		return store.Head{}, err
	}
	parts := was.value.GetParts()
	was.value.SinceEpoch = epoch
	if !whole {
		parts++ // one that is not there
		was.value.SinceEpoch = 0
	}
	c := Config{Node: node, Incarnation: incarnation, Epoch: epoch}
	return head{value: was.value}.replace(c, 0, was.value.GetGeneration(), parts).stored, nil
}

// Unanchored returns the value of a head for a copy of its log, of which the first append may be another, and
// which is opened although the store may have had more.
func Unanchored(value []byte) ([]byte, error) {
	was, err := readHead(store.Head{Revision: store.None + 1, Value: value})
	if err != nil {
		return nil, err
	}
	was.value.SinceEpoch, was.value.Lost = 0, nil
	return seal(was.value), nil
}

// CheckBegin fails if the first append of a log that was read from its head's since cannot be the one that was
// there, because the store has lost that, or the head.
func CheckBegin(h store.Head, first store.Append) error {
	decoded, err := readAppend(first.Data)
	if err != nil {
		return nil // the log lacks nothing, as far as is known
	}
	was, err := readHead(h)
	if err != nil {
		was = head{h, &wire.DurableHead{}}
	}
	if lacks := was.lacks(first.Position, decoded); lacks != "" {
		return fmt.Errorf("%w: %s", errLost, lacks)
	}
	return nil
}

// HeadBy returns the epoch of a head, and the node that wrote it.
func HeadBy(h store.Head) (epoch uint64, node string, err error) {
	was, err := readHead(h)
	return was.value.GetEpoch(), was.value.GetNode(), err
}

// ClaimAppend returns the append by which a claim ends everything that stands before it in a log.
func ClaimAppend(node string, incarnation, epoch uint64) []byte {
	return seal(&wire.DurableAppend{
		Format: formatNow, Epoch: epoch, Incarnation: incarnation, Claim: 1,
		Entries: []*wire.DurableEntry{{Kind: &wire.DurableEntry_Claim{Claim: &wire.DurableClaim{Node: node}}}},
	})
}

// FreshHead returns the value of a head of a shard without a table, under an epoch that is at least
// those of the log.
func FreshHead(node string, incarnation, epoch uint64, log []store.Append) []byte {
	for _, a := range log {
		if decoded, err := readAppend(a.Data); err == nil {
			epoch = max(epoch, decoded.GetEpoch())
		}
	}
	return head{}.replace(Config{Node: node, Incarnation: incarnation, Epoch: epoch}, 0, 0, 0).stored.Value
}

// Readable returns the appends of a log that can be decoded.
func Readable(log []store.Append) (readable []store.Append) {
	for _, a := range log {
		if _, err := readAppend(a.Data); err == nil {
			readable = append(readable, a)
		}
	}
	if len(readable) > 0 && readable[0].Position != log[0].Position {
		return Headless(readable)
	}
	return readable
}

// Without returns a log that can be decoded without the commits of some entities.
func Without(log []store.Append, entities map[string]bool) (rest []store.Append) {
	for _, a := range log {
		decoded, err := readAppend(a.Data)
		if err != nil {
			continue
		}
		before := len(decoded.GetEntries())
		decoded.Entries = slices.DeleteFunc(decoded.Entries, func(e *wire.DurableEntry) bool {
			return e.GetCommit() != nil && entities[string(e.GetCommit().GetEntity())]
		})
		if len(decoded.Entries) < before {
			a.Data = seal(decoded)
		}
		rest = append(rest, a)
	}
	return rest
}

// Renumbered returns a log that can be decoded, whose events follow those of a shard's journal without a
// gap, at which a follower would wait for ever. The journal is among the records.
func Renumbered(log []store.Append, records []store.Record) ([]store.Append, error) {
	last := uint64(0)
	for _, r := range records {
		if r.Key == journalKey {
			index, err := readIndex(r)
			if err != nil {
				return nil, err
			}
			last = index.GetNumber()
		}
	}
	log = slices.Clone(log)
	var counted chain
	for i, a := range log {
		decoded, err := readAppend(a.Data)
		if err != nil || !counted.add(decoded) || i == 0 {
			continue // the commits of the first do not count
		}
		for _, e := range decoded.GetEntries() {
			c := e.GetCommit()
			n := uint64(len(c.GetEvents()))
			if n == 0 || c.GetEvent()+n <= last+1 {
				continue // the journal has them
			}
			c.Event = min(c.GetEvent(), last+1)
			last = c.GetEvent() + n - 1
		}
		log[i].Data = seal(decoded)
	}
	return log, nil
}

// Headless returns a log that lacks its first append, with an empty one in its place. The commits of a
// log's first append do not count, because its writer knew that records have them.
func Headless(log []store.Append) []store.Append {
	if len(log) == 0 {
		return nil
	}
	next, err := readAppend(log[0].Data)
	if err != nil || claimOf(next) != nil {
		return log
	}
	next.Counter--
	next.Entries = nil
	return append([]store.Append{{Position: log[0].Position, Data: seal(next)}}, log...)
}
