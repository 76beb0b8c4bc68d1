package wire

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A ListRequest asks a shard for ids of its entities, or for keys of an index. A key is a field's
// number and value, encoded by package ordered, and the id of an entity with that value.
type ListRequest struct {
	Prefix string // what the ids or keys begin with
	After  string // exclusive lower bound; "" means from the first on
	To     string // exclusive upper bound; "" means to the last
	Index  string // of MethodFind: the field and its kind, as in codegen.Index
	Limit  uint32 // greatest number of ids; 0 and too large values mean the home's own bound
	Bytes  uint32 // greatest number of bytes, but at least one id is returned; 0 and too large values mean the home's own bound
	Active bool   // only entities that are active
}

// DueKey returns the key that stands for an entity with reminders in the answer to MethodDue. at is
// the earliest time at which one of these reminders is due, in Unix milliseconds from 0 on. Keys
// sort by time.
func DueKey(at int64, id string) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(at))
	return string(b[:]) + id
}

// ParseDueKey returns the arguments for which DueKey returns key. ok is false if there are none.
func ParseDueKey(key string) (at int64, id string, ok bool) {
	if len(key) < 8 {
		return 0, "", false
	}
	return int64(binary.BigEndian.Uint64([]byte(key[:8]))), key[8:], true
}

const (
	listPrefix = 1
	listAfter  = 2
	listLimit  = 3
	listBytes  = 4
	listActive = 5
	listTo     = 6
	listIndex  = 7
)

// Append appends the encoded request.
func (r *ListRequest) Append(b []byte) []byte {
	b = appendString(b, listPrefix, r.Prefix)
	b = appendString(b, listAfter, r.After)
	b = appendUint(b, listLimit, uint64(r.Limit))
	b = appendUint(b, listBytes, uint64(r.Bytes))
	if r.Active {
		b = appendUint(b, listActive, 1)
	}
	b = appendString(b, listTo, r.To)
	return appendString(b, listIndex, r.Index)
}

// ParseListRequest decodes a request. It skips unknown fields.
func ParseListRequest(b []byte) (r ListRequest, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return r, malformed("list request", n)
		}
		b = b[n:]
		var text []byte
		var number uint64
		switch typ {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return r, malformed("list request", n)
		}
		b = b[n:]
		r.set(num, typ, text, number)
	}
	return r, nil
}

func (r *ListRequest) set(num protowire.Number, typ protowire.Type, text []byte, number uint64) {
	switch is := typ == protowire.BytesType; {
	case num == listPrefix && is:
		r.Prefix = string(text)
	case num == listAfter && is:
		r.After = string(text)
	case num == listTo && is:
		r.To = string(text)
	case num == listIndex && is:
		r.Index = string(text)
	case typ != protowire.VarintType:
	case num == listLimit:
		r.Limit = uint32(min(number, 1<<32-1))
	case num == listBytes:
		r.Bytes = uint32(min(number, 1<<32-1))
	case num == listActive:
		r.Active = number != 0
	}
}

// A ListPage yields the ids of an encoded answer to a ListRequest, in their order.
type ListPage struct {
	ids  []byte // encoded
	more bool
}

const (
	pageMore = 1
	pageIDs  = 2
)

// MaxListHeader bounds the bytes of an encoded page without its ids.
const MaxListHeader = 2

// AppendListPage appends an encoded page. more says that the shard may have ids above the last one.
func AppendListPage(b []byte, ids []string, more bool) []byte {
	if more {
		b = appendUint(b, pageMore, 1)
	}
	for _, id := range ids {
		b = protowire.AppendTag(b, pageIDs, protowire.BytesType)
		b = protowire.AppendString(b, id)
	}
	return b
}

// ListedSize returns the bytes of an id in an encoded page.
func ListedSize(id string) int { return protowire.SizeTag(pageIDs) + protowire.SizeBytes(len(id)) }

// ParseListPage decodes the answer to the request r, sharing b. It returns an error unless the ids
// are as requested: in ascending order, above After, below To and with the prefix. last is the last
// id of the page, or After if the page is empty.
func ParseListPage(b []byte, r *ListRequest) (p ListPage, last []byte, err error) {
	p.ids = b
	last = BytesOf(r.After)
	n := 0
	err = EachField(b, func(f Field) error {
		switch {
		case f.Number == pageMore && f.Type == protowire.VarintType:
			p.more = true // it is written only if it is not 0
		case f.Number == pageIDs && f.Type == protowire.BytesType:
			id, above := StringOf(f.Bytes), StringOf(last)
			if id <= above || len(id) < len(r.Prefix) || id[:len(r.Prefix)] != r.Prefix || r.To != "" && id >= r.To {
				return fmt.Errorf("id %.100q is out of order after %.100q, or lacks the prefix %.100q (or is above the requested range)", id, above, r.Prefix)
			}
			last = f.Bytes
			n++
		}
		return nil
	})
	if err == nil && p.more && n == 0 {
		err = fmt.Errorf("the page has no ids, but says that more follow")
	}
	if err != nil {
		return ListPage{}, nil, fmt.Errorf("page of a list: %w", err)
	}
	return p, last, nil
}

// More reports whether the shard may have ids above the last one of the page.
func (p *ListPage) More() bool { return p.more }

// Left returns the bytes of the ids that Next has not returned yet.
func (p *ListPage) Left() int { return len(p.ids) }

// Next returns the next id of the page, or nil at its end. The id shares memory with the page.
func (p *ListPage) Next() (id []byte) {
	for len(p.ids) > 0 {
		num, typ, n := protowire.ConsumeTag(p.ids)
		rest := p.ids[max(n, 0):]
		var v []byte
		m := -1
		if n > 0 && typ == protowire.BytesType {
			v, m = protowire.ConsumeBytes(rest)
		} else if n > 0 {
			m = protowire.ConsumeFieldValue(num, typ, rest)
		}
		if m < 0 { // ParseListPage accepts no such page
			p.ids = nil
			return nil
		}
		p.ids = rest[m:]
		if num == pageIDs && typ == protowire.BytesType {
			return v
		}
	}
	return nil
}
