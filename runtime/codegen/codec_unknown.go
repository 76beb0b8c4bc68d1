package codegen

import "google.golang.org/protobuf/encoding/protowire"

// Fields reports whether this program knows field num of a message. If the field holds one message
// (a struct, or a pointer to a struct), inside is the Fields of that inner message, and unknown
// fields in the inner message are kept too. Otherwise inside is nil.
type Fields func(num int) (known bool, inside Fields)

// UnknownFields returns the fields of the message b that f does not know, or nil if f knows all. An
// unknown field of an inner message is returned inside the field that contains this message. The
// result does not share memory with b.
//
// A state has unknown fields if a newer program wrote it. The program that reads the state keeps
// these fields beside the entity and writes them back with [AppendUnknown]. Unknown fields inside
// elements of slices, arrays and maps are not kept, because they cannot be matched to the elements
// once the program has changed the list.
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

// AppendUnknown appends kept, the result of [UnknownFields] for an earlier encoding, to the encoded
// message b. It leaves out kept fields of inner messages that b lacks, for example because a
// pointer became nil. The result may contain an inner message twice; readers of protobuf merge the
// two parts.
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
		var message []byte // the present field
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

// eachField yields each field of b. content is nil unless the field may be a message. eachField
// stops at an invalid field.
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
