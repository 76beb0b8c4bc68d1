package message

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/internal/wire"
)

// Bounds of a message. They are checked on the encoded bytes, before memory is allocated. An empty
// element takes a hundred bytes of memory, but only two bytes of a message, and a hundredth of that
// if compressed.
const (
	// maxGossipBytes bounds an unpacked state: some ten thousand members.
	maxGossipBytes = 16 << 20
	// maxInflation bounds the compression ratio of a state of more than freeInflation bytes. A state
	// that compresses better is sent uncompressed.
	maxInflation = 64
	// freeInflation is the unpacked size, in bytes, up to which maxInflation does not apply.
	freeInflation = 1 << 20
	// maxMembers bounds a state's addresses, and with them its members, observers, tombstones and
	// clock entries. It also bounds the members that a status may claim.
	maxMembers = 1 << 16
	// maxElements bounds the roles, descriptions and records of all members together.
	maxElements = 1 << 18
	// freeElements is how many addresses, and how many elements, any state may have. Each byte of
	// the state on the wire allows one more address, which has eight random bytes, and
	// elementsPerByte more elements.
	freeElements    = 1 << 12
	elementsPerByte = 4
	maxSeeds        = 1 << 10
	maxDescribed    = 1 << 12
)

func unpackedLimit(packed int) int {
	return min(max(freeInflation, maxInflation*min(packed, maxGossipBytes)), maxGossipBytes)
}

const (
	messageHello = 3
	messageJoin  = 5

	helloSeeds = 2

	joinRoles  = 1
	joinMeta   = 2
	joinCompat = 3

	gossipAddresses     = 1
	gossipMembers       = 3
	gossipRows          = 4
	gossipTombstones    = 7
	gossipVersionNodes  = 9
	gossipVersionCounts = 10

	memberRoles = 3
	memberMeta  = 7

	rowRecords = 3
)

// checkMessage returns an error if a list in the encoded message is too long. It leaves the
// fields of a state to checkState.
func checkMessage(b []byte) error {
	seeds, described := 0, 0
	err := wire.EachField(b, func(f wire.Field) error {
		switch f.Number {
		case messageHello:
			return wire.EachField(f.Bytes, func(f wire.Field) error {
				if f.Number == helloSeeds {
					seeds++
				}
				return atMost("seeds", seeds, maxSeeds)
			})
		case messageStand:
			return wire.EachField(f.Bytes, func(f wire.Field) error {
				if f.Number == standExcept || f.Number == standDead {
					seeds++
				}
				return atMost("excepted and dead members", seeds, maxSeeds)
			})
		case messageJoin:
			return wire.EachField(f.Bytes, func(f wire.Field) error {
				switch f.Number {
				case joinRoles, joinMeta, joinCompat:
					described++
				}
				return atMost("roles and descriptions", described, maxDescribed)
			})
		}
		return nil
	})
	return err
}

type census struct {
	maxAddresses, maxElements int

	addresses, members, rows, tombstones int
	versionNodes, versionCounts          int
	elements                             int
}

// checkState returns an error if a list in an encoded state is longer than its addresses, its
// size or the bounds allow. sent is the state's size on the wire.
func checkState(plain []byte, sent int) error {
	sent = min(sent, maxGossipBytes)
	c := census{
		maxAddresses: min(maxMembers, freeElements+sent),
		maxElements:  min(maxElements, freeElements+elementsPerByte*sent),
	}
	if err := wire.EachField(plain, c.count); err != nil {
		return err
	}
	for _, list := range []struct {
		name string
		n    int
	}{
		{"members", c.members},
		{"observers", c.rows},
		{"tombstones", c.tombstones},
		{"nodes in its version", c.versionNodes},
		{"counts in its version", c.versionCounts},
	} {
		if list.n > c.addresses {
			return fmt.Errorf("%d %s for %d addresses", list.n, list.name, c.addresses)
		}
	}
	return nil
}

func (c *census) count(f wire.Field) error {
	switch f.Number {
	case gossipAddresses:
		c.addresses++
	case gossipMembers:
		c.members++
		if err := c.countElements(f.Bytes, memberRoles, memberMeta); err != nil {
			return err
		}
	case gossipRows:
		c.rows++
		if err := c.countElements(f.Bytes, rowRecords, rowRecords); err != nil {
			return err
		}
	case gossipTombstones:
		c.tombstones++
	case gossipVersionNodes:
		c.versionNodes += numbers(f)
	case gossipVersionCounts:
		c.versionCounts += numbers(f)
	}
	longest := max(c.addresses, c.members, c.rows, c.tombstones, c.versionNodes, c.versionCounts)
	return atMost("addresses, or members, observers, tombstones or clock entries", longest, c.maxAddresses)
}

func (c *census) countElements(b []byte, one, other protowire.Number) error {
	return wire.EachField(b, func(f wire.Field) error {
		if f.Number == one || f.Number == other {
			c.elements++
		}
		return atMost("roles, descriptions and records", c.elements, c.maxElements)
	})
}

func numbers(f wire.Field) int {
	if f.Type != protowire.BytesType {
		return 1
	}
	n := 0
	for _, x := range f.Bytes {
		if x < 0x80 { // the last byte of a varint
			n++
		}
	}
	return n
}

func atMost(name string, n, limit int) error {
	if n > limit {
		return fmt.Errorf("more than %d %s", limit, name)
	}
	return nil
}
