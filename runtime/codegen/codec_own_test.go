package codegen

import (
	"crypto/x509"
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// arrivals returns the values that arrive if v is sent as a field, as an element, and as a copy.
func arrivals[T any, P ~*T](v T, m ownMethods[T, P]) (list []T, err error) {
	b, err := appendOwn(nil, 1, &v, m)
	if err != nil {
		return nil, err
	}
	field, err := arrival(b, m)
	if err != nil {
		return nil, err
	}
	if b, err = putOwn(nil, 1, &v, m); err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, errors.New("an element is not written")
	}
	element, err := arrival(b, m)
	if err != nil {
		return nil, err
	}
	clone, err := cloneOwn(&v, m)
	return []T{field, element, clone}, err
}

func arrival[T any, P ~*T](b []byte, m ownMethods[T, P]) (v T, err error) {
	for d := NewDecoder(b); d.Next(); err = d.Err("field") {
		readOwn(&d, &v, m)
	}
	return v, err
}

// A formCase is a test of some values of one type.
type formCase struct {
	name string
	test func(t *testing.T)
}

// keeps returns the case of a type whose values all arrive unchanged.
func keeps[T any, P ~*T](m ownMethods[T, P], same func(a, b T) bool, values ...T) formCase {
	return formCase{fmt.Sprintf("%T %s", *new(T), m.form), func(t *testing.T) {
		for _, v := range append(values, *new(T)) {
			got, err := arrivals(v, m)
			if err != nil {
				t.Errorf("%#v: %v", v, err)
			}
			for i, a := range got {
				if !same(v, a) {
					t.Errorf("%s: got %#v, want %#v", []string{"field", "element", "copy"}[i], a, v)
				}
			}
		}
	}}
}

// loses returns the case of a type with a value that arrives as want, as docs/guide/first-entity.md
// says.
func loses[T any, P ~*T](m ownMethods[T, P], same func(a, b T) bool, value, want T) formCase {
	return formCase{fmt.Sprintf("%T %s loses %v", *new(T), m.form, value), func(t *testing.T) {
		got, err := arrivals(value, m)
		if err != nil || !slices.ContainsFunc(got, func(a T) bool { return same(a, want) }) || same(value, got[0]) {
			t.Errorf("got %v, %v, want %v (does it lose nothing any more? then mend the documentation)", got, err, want)
		}
	}}
}

// refuses returns the case of a value that cannot be encoded, and gives an error.
func refuses[T any, P ~*T](m ownMethods[T, P], value T) formCase {
	return formCase{fmt.Sprintf("%T %s refuses %v", *new(T), m.form, value), func(t *testing.T) {
		if got, err := arrivals(value, m); err == nil {
			t.Errorf("got %v, want an error", got)
		}
	}}
}

func text[T any, P textPointer[T]]() ownMethods[T, P] {
	return ownMethods[T, P]{textForm, P.MarshalText, P.UnmarshalText}
}

func binary[T any, P binaryPointer[T]]() ownMethods[T, P] {
	return ownMethods[T, P]{binaryForm, P.MarshalBinary, P.UnmarshalBinary}
}

func gob[T any, P gobPointer[T]]() ownMethods[T, P] {
	return ownMethods[T, P]{gobForm, P.GobEncode, P.GobDecode}
}

func equal[T comparable](a, b T) bool { return a == b }

func deeply[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

func sameNumber[T any, P interface {
	*T
	Cmp(P) int
}](a, b T) bool {
	return P(&a).Cmp(&b) == 0
}

func sameFloat(a, b big.Float) bool {
	return a.Cmp(&b) == 0 && a.Prec() == b.Prec() && a.Mode() == b.Mode() && a.Acc() == b.Acc() && a.Signbit() == b.Signbit()
}

func sameString[T any](a, b T) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestOwnForms: a value of a type with its own encoding arrives unchanged, also if it is the zero
// value or unusual.
func TestOwnForms(t *testing.T) {
	huge := new(big.Int).Lsh(big.NewInt(-3), 200)
	addr := netip.MustParseAddr("fe80::1%eth0")
	half := new(big.Float).SetPrec(7).SetMode(big.AwayFromZero).SetFloat64(-0.5)
	infinite, minusZero := new(big.Float).SetInf(true), new(big.Float).Neg(new(big.Float))
	oid, err := x509.OIDFromInts([]uint64{1, 2, 840, math.MaxUint32})
	if err != nil {
		t.Fatal(err)
	}
	cases := []formCase{
		keeps(text[big.Int](), sameNumber, *huge, *big.NewInt(0)),
		keeps(text[big.Rat](), sameNumber, *big.NewRat(-1, 3), *big.NewRat(0, 5)),
		keeps(gob[big.Float](), sameFloat, *half, *infinite, *minusZero, *new(big.Float).SetPrec(99)),
		keeps(binary[netip.Addr](), equal, addr, netip.IPv6Unspecified(), netip.MustParseAddr("::ffff:1.2.3.4")),
		keeps(text[netip.Addr](), equal, addr, netip.MustParseAddr("::ffff:1.2.3.4")),
		keeps(binary[netip.AddrPort](), equal, netip.AddrPortFrom(addr, 0), netip.AddrPortFrom(netip.Addr{}, 80)),
		keeps(binary[netip.Prefix](), equal, netip.MustParsePrefix("10.0.0.1/8"), netip.PrefixFrom(addr.WithZone(""), 0)),
		keeps(binary[url.URL](), deeply, mustURL("https://a:b@example.com/a%2Fb?#f"), mustURL("mailto:a@b"), mustURL("//h"), mustURL("?")),
		keeps(text[slog.Level](), equal, slog.LevelError, 3, -100),
		keeps(text[regexp.Regexp](), func(a, b regexp.Regexp) bool { return a.String() == b.String() }, *regexp.MustCompile(""), *regexp.MustCompile("a+")),
		keeps(binary[time.Time](), time.Time.Equal, time.Unix(0, 1), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)),
		keeps(binary[x509.OID](), sameString, oid),
		keeps(text[net.IP](), net.IP.Equal, net.IPv4(1, 2, 3, 4), net.IPv6zero, net.IPv4zero.To4()),

		keeps(text[date](), equal, date{2026, 2, 3}),
		keeps(text[level](), equal, 1, 2),
		keeps(text[fragile](), deeply, fragile{new(7)}),
		refuses(text[date](), date{2026, 13, 45}),
		refuses(text[ticket](), ticket{hidden: true}),

		loses(text[net.IP](), func(a, b net.IP) bool { return slices.Equal(a, b) }, net.IPv4(1, 2, 3, 4).To4(), net.IPv4(1, 2, 3, 4).To16()),
		loses(text[regexp.Regexp](), func(a, b regexp.Regexp) bool { return longest(&a) == longest(&b) }, *regexp.MustCompilePOSIX("a|ab"), *regexp.MustCompile("a|ab")),
		loses(binary[url.URL](), deeply, url.URL{Scheme: "HTTPS", Host: "a"}, url.URL{Scheme: "https", Host: "a"}),
		loses(text[netip.AddrPort](), equal, netip.AddrPortFrom(netip.Addr{}, 80), netip.AddrPort{}),
		loses(text[net.IP](), deeply, net.IP{}, nil),
		loses(text[big.Float](), sameFloat, *new(big.Float).SetPrec(7).SetFloat64(0.5), *new(big.Float).SetPrec(64).SetFloat64(0.5)),
	}
	for _, c := range cases {
		t.Run(c.name, c.test)
	}
}

func longest(r *regexp.Regexp) string { return r.FindString("ab") }

func mustURL(s string) url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return *u
}

// A date is a type that cannot decode the text of its zero value.
type date struct{ year, month, day int }

func (d date) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%04d-%02d-%02d", d.year, d.month, d.day), nil
}

func (d *date) UnmarshalText(text []byte) error {
	at, err := time.Parse("2006-01-02", string(text))
	*d = date{at.Year(), int(at.Month()), at.Day()}
	return err
}

// A level is a type that decodes an empty text as its default, which is not zero.
type level int

func (l level) MarshalText() ([]byte, error) { return []byte([]string{"", "medium", "high"}[l]), nil }

func (l *level) UnmarshalText(text []byte) error {
	*l = level(max(1, slices.Index([]string{"", "medium", "high"}, string(text))))
	return nil
}

// fragile is a type whose zero value cannot be encoded.
type fragile struct{ n *int }

func (f fragile) MarshalText() ([]byte, error) { return fmt.Append(nil, *f.n), nil }

func (f *fragile) UnmarshalText(text []byte) error {
	f.n = new(int)
	_, err := fmt.Sscan(string(text), f.n)
	return err
}

// A ticket is a type with an empty text for some values, but not for the zero value.
type ticket struct{ hidden bool }

func (t ticket) MarshalText() ([]byte, error) {
	return []byte(strings.Repeat("open", map[bool]int{false: 1}[t.hidden])), nil
}

func (t *ticket) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("no ticket")
	}
	t.hidden = false
	return nil
}

var _ encoding.TextMarshaler = ticket{}
