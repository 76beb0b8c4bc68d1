package codegen

import "google.golang.org/protobuf/encoding/protowire"

// Fields reports which fields of a message this program knows. Inside is the tree of the message in
// field num, if the field holds a single one (a struct, or a pointer to one): its unknown fields
// are kept too. It is nil for every other field.
type Fields func(num int) (known bool, inside Fields)

// UnknownFields returns the fields of the message b unknown to f, and those of the messages in it,
// each within the fields that lead to it. It returns nil if there are none, and never shares memory
// with b.
//
// A state that a newer program wrote has such fields. The program that reads it keeps
// them beside the entity and writes them back with [AppendUnknown]. Unknown fields of
// elements of slices, arrays and maps are not kept: no element is the same one once the
// program has changed the list.
func UnknownFields(b []byte, f Fields) []byte { return appendUnknown(nil, b, f) }

func appendUnknown(out, b []byte, f Fields) []byte {
	eachField(b, func(num int, raw, content []byte) {
		known, inside := f(num)
		switch {
		case !known:
			out = append(out, raw...)
		case inside != nil && content != nil:
			opened, at := Open(out, num)
			if opened = appendUnknown(opened, content, inside); len(opened) > at {
				out = Close(opened, at)
			}
		}
	})
	return out
}

// AppendUnknown appends to the encoded message b the fields that [UnknownFields] kept of an earlier
// one. Kept fields of a message that b no longer has, because a pointer became nil, are left out.
// If a field then occurs twice, it is one message in two parts, and every reader of protobuf merges
// them.
func AppendUnknown(b, kept []byte, f Fields) []byte {
	if len(kept) == 0 {
		return b
	}
	return mergeUnknown(b, b, kept, f)
}

func mergeUnknown(out, now, kept []byte, f Fields) []byte {
	eachField(kept, func(num int, raw, content []byte) {
		_, inside := f(num)
		if inside == nil {
			out = append(out, raw...)
			return
		}
		var message []byte // the field as it is now
		eachField(now, func(n int, _, content []byte) {
			if n == num {
				message = content
			}
		})
		if message == nil {
			return
		}
		opened, at := Open(out, num)
		if opened = mergeUnknown(opened, message, content, inside); len(opened) > at {
			out = Close(opened, at)
		}
	})
	return out
}

// eachField calls yield for each field of the message b: with the whole field, and with its content
// if that may be a message. The content is not nil then. It stops at bytes that are no field.
func eachField(b []byte, yield func(num int, raw, content []byte)) {
	for len(b) > 0 {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return
		}
		n := protowire.ConsumeFieldValue(num, typ, b[tag:])
		if n < 0 {
			return
		}
		var content []byte
		if typ == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(b[tag:])
		}
		yield(int(num), b[:tag+n], content)
		b = b[tag+n:]
	}
}
