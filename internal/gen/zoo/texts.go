package zoo

import (
	"errors"
	"net/netip"
	"strconv"
)

// Texts has types that Go copies by assignment and that travel as text or bytes.
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

// Code is text that may refuse to be written or read, the empty one to be read.
type Code string

// MarshalText fails for "unwritable".
func (c Code) MarshalText() ([]byte, error) {
	if c == "unwritable" {
		return nil, errors.New("unwritable code")
	}
	return []byte(c), nil
}

// UnmarshalText fails for "unreadable" and "".
func (c *Code) UnmarshalText(text []byte) error {
	if len(text) == 0 || string(text) == "unreadable" {
		return errors.New("unreadable code")
	}
	*c = Code(text)
	return nil
}

// Cents loses the digits that its text has no room for.
type Cents int64

// MarshalText returns the number of whole hundreds.
func (c Cents) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(c/100), 10), nil }

// UnmarshalText reads a number of hundreds.
func (c *Cents) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	*c = Cents(n * 100)
	return err
}

// Key is bytes, of which only the first part travels.
type Key struct{ ID, cached uint8 }

// MarshalBinary returns nothing for the key 0.
func (k Key) MarshalBinary() ([]byte, error) {
	if k.ID == 0 {
		return nil, nil
	}
	return []byte{k.ID}, nil
}

// UnmarshalBinary reads one byte.
func (k *Key) UnmarshalBinary(data []byte) error {
	if len(data) != 1 {
		return errors.New("not a key")
	}
	*k = Key{ID: data[0]}
	return nil
}
