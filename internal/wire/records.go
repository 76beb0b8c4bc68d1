package wire

import "google.golang.org/protobuf/encoding/protowire"

// A Record is one entity's encoded state, or its reminders. A record without an entity says that
// the shard's records include all of its remembered entities.
type Record struct {
	Entity     string
	State      []byte
	Remembered Remembered
}

// Remembered says whether an entity is activated again, after its shard has moved, without waiting
// for a call.
type Remembered uint32

// The values of Remembered.
const (
	NotRemembered Remembered = iota // it is activated by its next call
	WithState                       // it is activated again, from its state
	WithoutState                    // it is activated again, and has no state
	OfReminders                     // State holds the entity's reminders instead
)

// AppendRecord appends one record to encoded records.
func AppendRecord(b []byte, entity string, state []byte, r Remembered) []byte {
	n := sizeString(1, entity)
	if len(state) > 0 {
		n += protowire.SizeTag(2) + protowire.SizeBytes(len(state))
	}
	if r != 0 {
		n += protowire.SizeTag(3) + protowire.SizeVarint(uint64(r))
	}
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(n))
	b = appendString(b, 1, entity)
	b = appendBytes(b, 2, state)
	return appendUint(b, 3, uint64(r))
}

// RecordBound returns an upper bound of the bytes that AppendRecord appends.
func RecordBound(entity string, state []byte) int { return len(entity) + len(state) + 32 }

// ParseRecords calls f for each record. The record's State is a copy.
func ParseRecords(b []byte, f func(Record)) error {
	return eachBytes(b, 1, "records", func(v []byte) error {
		var r Record
		for len(v) > 0 {
			num, typ, n := protowire.ConsumeTag(v)
			if n < 0 {
				return malformed("record", n)
			}
			v = v[n:]
			var p []byte
			var u uint64
			switch {
			case num == 1 && typ == protowire.BytesType:
				p, n = protowire.ConsumeBytes(v)
				r.Entity = string(p)
			case num == 2 && typ == protowire.BytesType:
				p, n = protowire.ConsumeBytes(v)
				r.State = append([]byte(nil), p...)
			case num == 3 && typ == protowire.VarintType:
				u, n = protowire.ConsumeVarint(v)
				r.Remembered = Remembered(u)
			default:
				n = protowire.ConsumeFieldValue(num, typ, v)
			}
			if n < 0 {
				return malformed("record field", n)
			}
			v = v[n:]
		}
		f(r)
		return nil
	})
}
