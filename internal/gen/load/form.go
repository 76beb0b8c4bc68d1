package load

import (
	"go/types"
	"strings"
)

var forms = [...]struct{ marshal, unmarshal string }{
	{"MarshalText", "UnmarshalText"},
	{"MarshalBinary", "UnmarshalBinary"},
}

func method(t types.Type, name string) *types.Signature {
	o, _, _ := types.LookupFieldOrMethod(t, true, nil, name)
	f, ok := o.(*types.Func)
	if !ok {
		return nil
	}
	return f.Signature()
}

// declared returns the method called name that the type to which t points declares, on a pointer or
// a value. It ignores promoted methods, which encode only the embedded field.
func declared(t types.Type, name string) *types.Signature {
	o, index, _ := types.LookupFieldOrMethod(t, true, nil, name)
	f, ok := o.(*types.Func)
	if !ok || len(index) != 1 {
		return nil
	}
	return f.Signature()
}

// isMessage reports whether pointer t is a protobuf message.
func isMessage(t types.Type) bool {
	s := declared(t, "ProtoReflect")
	return s != nil && s.Params().Len() == 0 && s.Results().Len() == 1 &&
		strings.HasSuffix(types.TypeString(types.Unalias(s.Results().At(0).Type()), nil), protoPath+".Message")
}

func hasText(t types.Type) bool {
	return hasReverse(types.NewPointer(t), "MarshalText", "UnmarshalText")
}

func hasBinary(t types.Type) bool {
	return hasReverse(types.NewPointer(t), "MarshalBinary", "UnmarshalBinary")
}

// hasReverse reports whether t's element declares both methods, by their names: marshal with the
// signature () ([]byte, error), and unmarshal with ([]byte) error.
func hasReverse(t types.Type, marshal, unmarshal string) bool {
	return marshals(declared(t, marshal)) && unmarshals(declared(t, unmarshal))
}

// half checks pairs of methods such as MarshalText and UnmarshalText. If t declares only one method
// of a pair, half returns the name of that method and the name of the other, which t lacks.
func half(t types.Type) (has, lacks string, ok bool) {
	p := types.NewPointer(t)
	for _, f := range forms {
		m, u := marshals(declared(p, f.marshal)), unmarshals(declared(p, f.unmarshal))
		switch {
		case m && !u:
			return f.marshal, f.unmarshal, true
		case u && !m:
			return f.unmarshal, f.marshal, true
		}
	}
	return "", "", false
}

func marshals(s *types.Signature) bool {
	return s != nil && signatureIs(s, nil, []types.Type{types.NewSlice(types.Typ[types.Byte]), types.Universe.Lookup("error").Type()})
}

func unmarshals(s *types.Signature) bool {
	return s != nil && signatureIs(s, []types.Type{types.NewSlice(types.Typ[types.Byte])}, []types.Type{types.Universe.Lookup("error").Type()})
}

func signatureIs(s *types.Signature, params, results []types.Type) bool {
	same := func(tuple *types.Tuple, want []types.Type) bool {
		if tuple.Len() != len(want) {
			return false
		}
		for i, t := range want {
			if !types.Identical(tuple.At(i).Type(), t) {
				return false
			}
		}
		return true
	}
	return same(s.Params(), params) && same(s.Results(), results)
}

// isLossless reports whether copies of a t share no data, and equal the value decoded from its
// text. Few types qualify: netip.Prefix may have no text, netip.AddrPort may lose its port.
func isLossless(t types.Type) bool { return isNamed(t, "net/netip", "Addr") }
