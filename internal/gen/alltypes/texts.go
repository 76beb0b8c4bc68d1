package alltypes

import (
	"errors"
	"net/netip"
	"strconv"
)

// Texts has types copied by assignment in Go and encoded as text or bytes.
type Texts struct {
	Code     Code
	Codes    []Code
	ByCode   map[Code]Code
	Pointer  *Code
	Pair     [2]Code
	Cents    Cents
	Stakes   []Cents
	Key      Key
	Keys     []Key
	ByKey    map[Key]Key
	Prefix   netip.Prefix
	AddrPort netip.AddrPort
}

// Code is a text that cannot always be encoded and decoded. Encoding fails for "unwritable".
// Decoding fails for "unreadable" and for the empty text.
type Code string

// MarshalText returns the code, or an error for "unwritable".
func (c Code) MarshalText() ([]byte, error) {
	if c == "unwritable" {
		return nil, errors.New("unwritable code")
	}
	return []byte(c), nil
}

// UnmarshalText sets the code, or returns an error for "unreadable" and "".
func (c *Code) UnmarshalText(text []byte) error {
	if len(text) == 0 || string(text) == "unreadable" {
		return errors.New("unreadable code")
	}
	*c = Code(text)
	return nil
}

// Cents is a number whose text has only the whole hundreds, so encoding loses digits.
type Cents int64

// MarshalText returns the number of whole hundreds.
func (c Cents) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(c/100), 10), nil }

// UnmarshalText reads a number of hundreds.
func (c *Cents) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	*c = Cents(n * 100)
	return err
}

// Key has a binary form with only its ID.
type Key struct{ ID, cached uint8 }

// MarshalBinary returns no bytes for the ID 0.
func (k Key) MarshalBinary() ([]byte, error) {
	if k.ID == 0 {
		return nil, nil
	}
	return []byte{k.ID}, nil
}

// UnmarshalBinary reads an ID from at most one byte.
func (k *Key) UnmarshalBinary(data []byte) error {
	if len(data) != 1 {
		return errors.New("not a key")
	}
	*k = Key{ID: data[0]}
	return nil
}
