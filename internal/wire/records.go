package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// A Link is one entity whose turn waits for a call.
type Link struct {
	Kind   string
	Entity string
	Shard  uint32
}

// AppendLink appends one link to an encoded chain.
func AppendLink(b []byte, kind, entity string, shard uint32) []byte {
	n := sizeString(1, kind) + sizeString(2, entity)
	if shard != 0 {
		n += protowire.SizeTag(3) + protowire.SizeVarint(uint64(shard))
	}
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(n))
	b = appendString(b, 1, kind)
	b = appendString(b, 2, entity)
	return appendUint(b, 3, uint64(shard))
}

func sizeString(num protowire.Number, s string) int {
	if s == "" {
		return 0
	}
	return protowire.SizeTag(num) + protowire.SizeBytes(len(s))
}

// maxLinks bounds the memory that a received chain may make the reader allocate.
const maxLinks = 1024

// ParseChain reads an encoded chain, outermost link first.
func ParseChain(b []byte) ([]Link, error) {
	var links []Link
	err := eachBytes(b, 1, "chain", func(v []byte) error {
		if len(links) == maxLinks {
			return malformedText("chain", "too many links")
		}
		l, err := parseLink(v)
		links = append(links, l)
		return err
	})
	return links, err
}

func parseLink(b []byte) (l Link, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return l, malformed("link", n)
		}
		b = b[n:]
		var v []byte
		var u uint64
		switch {
		case num == 1 && typ == protowire.BytesType:
			v, n = protowire.ConsumeBytes(b)
			l.Kind = string(v)
		case num == 2 && typ == protowire.BytesType:
			v, n = protowire.ConsumeBytes(b)
			l.Entity = string(v)
		case num == 3 && typ == protowire.VarintType:
			u, n = protowire.ConsumeVarint(b)
			l.Shard = uint32(u)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return l, malformed("link field", n)
		}
		b = b[n:]
	}
	return l, nil
}

// A Record is one entity's encoded state. One without an entity says that all
// entities that are remembered are among the records.
type Record struct {
	Entity     string
	State      []byte
	Remembered Remembered
}

// Remembered says whether an entity is to be activated again without a call.
type Remembered uint32

// The kinds of a record.
const (
	NotRemembered Remembered = iota // it has state, and waits for a call
	WithState                       // it is to be activated again
	WithoutState                    // that, and it has no state
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

// RecordBound is an upper bound of the bytes that AppendRecord appends.
func RecordBound(entity string, state []byte) int { return len(entity) + len(state) + 32 }

// ParseRecords calls f for each record; the state is a copy.
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

// eachBytes calls f for each length-delimited field of that number and skips
// all others.
func eachBytes(b []byte, want protowire.Number, what string, f func([]byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformed(what, n)
		}
		b = b[n:]
		if num != want || typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return malformed(what, n)
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return malformed(what, n)
		}
		if err := f(v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
