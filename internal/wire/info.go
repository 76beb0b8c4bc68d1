package wire

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/transport"
)

// An Info has the data of a call besides its arguments: the headers, and what the gateway, tells
// and tracing add.
type Info struct {
	// Gateway names the caller for which a member makes the call, if the caller uses the gateway;
	// "" means none. Only members may set it.
	Gateway string
	// Told marks a tell that is sent as an ask, so that its sender learns when the turn has ended.
	Told bool
	// Traced says that the call is traced; the headers name its trace.
	Traced  bool
	Headers []Header
}

// A Header is one header of a call. Its key has 1 to MaxHeaderKey characters of [a-z0-9_-].
type Header struct{ Key, Value string }

// Bounds of the headers of one call.
const (
	MaxHeaders     = 32
	MaxHeaderBytes = 4 << 10 // of all keys and values together
	MaxHeaderKey   = 64
)

const (
	infoGateway = 1
	infoTold    = 2
	infoHeaders = 3
	infoTraced  = 4

	headerKey   = 1
	headerValue = 2
)

// ErrHeaders is wrapped by errors about headers that break a bound.
var ErrHeaders = errors.New("bad headers")

// Check returns an error if the headers break one of the bounds.
func (i *Info) Check() error {
	if n := len(i.Headers); n > MaxHeaders {
		return fmt.Errorf("%w: there are %d headers (want at most %d)", ErrHeaders, n, MaxHeaders)
	}
	size := 0
	for at, h := range i.Headers {
		if !goodHeaderKey(h.Key) {
			return fmt.Errorf("%w: key %q (want 1 to %d of a-z 0-9 _ -)", ErrHeaders, bounded.Text(h.Key), MaxHeaderKey)
		}
		for _, other := range i.Headers[:at] {
			if other.Key == h.Key {
				return fmt.Errorf("%w: key %s occurs twice", ErrHeaders, h.Key)
			}
		}
		size += len(h.Key) + len(h.Value)
	}
	if size > MaxHeaderBytes {
		return fmt.Errorf("%w: keys and values have %d bytes (want at most %d)", ErrHeaders, size, MaxHeaderBytes)
	}
	return nil
}

func goodHeaderKey(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= MaxHeaderKey
}

// Append appends the encoded Info. The zero Info is encoded as no bytes.
func (i *Info) Append(b []byte) []byte {
	b = appendString(b, infoGateway, i.Gateway)
	if i.Told {
		b = appendUint(b, infoTold, 1)
	}
	if i.Traced {
		b = appendUint(b, infoTraced, 1)
	}
	for _, h := range i.Headers {
		size := sizeString(headerKey, h.Key) + sizeString(headerValue, h.Value)
		b = slices.Grow(b, protowire.SizeTag(infoHeaders)+protowire.SizeBytes(size))
		b = protowire.AppendTag(b, infoHeaders, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(size))
		b = appendString(b, headerKey, h.Key)
		b = appendString(b, headerValue, h.Value)
	}
	return b
}

// ParseInfo decodes an Info. It returns an error if the Info breaks a bound. It checks each bound
// before it allocates, so that an invalid Info takes no more memory than a valid one.
func ParseInfo(b []byte) (i Info, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return Info{}, malformed("info", n)
		}
		b = b[n:]
		var v []byte
		switch {
		case typ == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			switch num {
			case infoTold:
				i.Told = v != 0
			case infoTraced:
				i.Traced = v != 0
			}
		case typ == protowire.BytesType:
			v, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return Info{}, malformed("info field", n)
		}
		b = b[n:]
		if typ != protowire.BytesType {
			continue
		}
		if err := i.set(num, v); err != nil {
			return Info{}, err
		}
	}
	return i, i.Check()
}

// GatewayOf returns the Gateway of an encoded Info, or "" if the Info has none or is malformed.
// Unlike ParseInfo it reads no headers.
func GatewayOf(info []byte) string {
	num, typ, n := protowire.ConsumeTag(info) // Append writes it first
	if n < 0 || num != infoGateway || typ != protowire.BytesType {
		return ""
	}
	name, n := protowire.ConsumeString(info[n:])
	if n < 0 || transport.CheckName("gateway caller", name) != nil {
		return ""
	}
	return name
}

// Traced reports whether an encoded Info says that the call is traced. It returns false if the Info is
// malformed. Unlike ParseInfo it reads no headers, and allocates nothing.
func Traced(info []byte) bool {
	for len(info) > 0 {
		num, typ, n := protowire.ConsumeTag(info) // Append writes it before the headers
		if n < 0 {
			return false
		}
		info = info[n:]
		if num == infoTraced && typ == protowire.VarintType {
			v, n := protowire.ConsumeVarint(info)
			return n > 0 && v != 0
		}
		if n = protowire.ConsumeFieldValue(num, typ, info); n < 0 {
			return false
		}
		info = info[n:]
	}
	return false
}

func (i *Info) set(num protowire.Number, v []byte) error {
	switch num {
	case infoGateway:
		i.Gateway = string(v)
		return transport.CheckName("gateway caller", i.Gateway)
	case infoHeaders:
		if len(i.Headers) == MaxHeaders || len(v) > MaxHeaderBytes+2*protowire.SizeVarint(MaxHeaderBytes)+2 {
			return fmt.Errorf("%w: there are more than %d headers, or one has more than %d bytes", ErrHeaders, MaxHeaders, MaxHeaderBytes)
		}
		h, err := parseHeader(v)
		i.Headers = append(i.Headers, h)
		return err
	}
	return nil
}

func parseHeader(b []byte) (h Header, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return h, malformed("header", n)
		}
		b = b[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return h, malformed("header field", n)
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return h, malformed("header field", n)
		}
		b = b[n:]
		switch num {
		case headerKey:
			h.Key = string(v)
		case headerValue:
			h.Value = string(v)
		}
	}
	return h, nil
}
