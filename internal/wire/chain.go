package wire

import "google.golang.org/protobuf/encoding/protowire"

// A Link is one entity of a call chain: an entity whose turn waits for the call.
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

// maxLinks bounds the links of a received chain, and so the memory for them.
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
