package message

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/internal/wire"
)

const (
	messageStand = 18
	standExcept  = 5
	standDead    = 7

	tableAddresses = 1
	tableRows      = 3
	tableDeleted   = 5

	tableRowMember     = 1
	tableRowCompat     = 3
	tableRowSuspicions = 6
)

func tableToWire(m Snapshot) (*wire.MembershipState, error) {
	t := m.Table
	if t == nil {
		return nil, errors.New("the message has no table")
	}
	addresses := newAddressTable()
	w := &wire.MembershipTable{Version: t.Version, Base: m.Base}
	for i := range t.Rows {
		w.Rows = append(w.Rows, rowToWire(addresses, &t.Rows[i]))
	}
	for _, a := range m.Deleted {
		w.Deleted = append(w.Deleted, addresses.place(a))
	}
	w.Addresses = addresses.list
	plain, err := proto.Marshal(w)
	if err != nil {
		return nil, err
	}
	if len(plain) > maxGossipBytes {
		return nil, fmt.Errorf("the table has %d bytes: want at most %d (shorten Config.Meta?)", len(plain), maxGossipBytes)
	}
	if len(plain) >= compressFrom {
		packed, err := deflate(plain)
		if err != nil {
			return nil, err
		}
		if len(plain) <= unpackedLimit(len(packed)) && checkTable(plain, len(packed)) == nil {
			return &wire.MembershipState{Compression: wire.MembershipState_DEFLATE, Gossip: packed}, nil
		}
	}
	if err := checkTable(plain, len(plain)); err != nil {
		return nil, fmt.Errorf("the table has %w (shorten Config.Meta?)", err)
	}
	return &wire.MembershipState{Gossip: plain}, nil
}

func rowToWire(t *addressTable, r *rows.Row) *wire.MembershipTableRow {
	w := &wire.MembershipTableRow{
		Member: memberToWire(t, r.Member), Compat: keyValuesToWire(r.Compat), Founder: t.place(r.Founder), Server: r.Server,
		StartedMilliseconds: timeToWire(r.Started), AliveMilliseconds: timeToWire(r.Alive), EndedMilliseconds: timeToWire(r.Ended), Touched: r.Touched,
	}
	if r.Status == gossip.Removed {
		w.Left, w.Member.Status = true, wire.MembershipMember_EXITING
	}
	for _, s := range r.Suspicions {
		w.Suspicions = append(w.Suspicions, &wire.MembershipSuspicion{By: t.place(s.By), AtMilliseconds: timeToWire(s.At)})
	}
	return w
}

func tableFromWire(target uint32, w *wire.MembershipState) (Snapshot, error) {
	plain, err := unpack(w)
	if err != nil {
		return Snapshot{}, fmt.Errorf("unpack table: %w", err)
	}
	if err := checkTable(plain, len(w.GetGossip())); err != nil {
		return Snapshot{}, fmt.Errorf("read table: %w", err)
	}
	in := &wire.MembershipTable{}
	if err := proto.Unmarshal(plain, in); err != nil {
		return Snapshot{}, fmt.Errorf("read table: %w", err)
	}
	addresses, err := readAddresses(in.Addresses)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read table: %w", err)
	}
	t := &rows.Table{Version: in.Version}
	for _, r := range in.Rows {
		row, err := rowFromWire(addresses, r)
		if err != nil {
			return Snapshot{}, fmt.Errorf("read table: %w", err)
		}
		t.Rows = append(t.Rows, row)
	}
	m := Snapshot{Target: target, Base: in.Base, Table: t}
	for _, place := range in.Deleted {
		m.Deleted = append(m.Deleted, addresses.at(place))
	}
	if addresses.err != nil {
		return Snapshot{}, fmt.Errorf("read table: %w", addresses.err)
	}
	return m, t.Check()
}

func rowFromWire(t *addresses, w *wire.MembershipTableRow) (rows.Row, error) {
	m, err := memberFromWire(t, w.GetMember())
	if err != nil {
		return rows.Row{}, err
	}
	r := rows.Row{
		Member: m, Compat: keyValuesFromWire(w.Compat), Founder: t.at(w.Founder), Server: w.Server,
		Started: timeFromWire(w.StartedMilliseconds), Alive: timeFromWire(w.AliveMilliseconds), Ended: timeFromWire(w.EndedMilliseconds), Touched: w.Touched,
	}
	if w.Left {
		r.Status = gossip.Removed
	}
	for _, s := range w.Suspicions {
		r.Suspicions = append(r.Suspicions, rows.Suspicion{By: t.at(s.GetBy()), At: timeFromWire(s.GetAtMilliseconds())})
	}
	return r, nil
}

func timeToWire(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeFromWire(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// known encodes an age in milliseconds, rounded up. An age too old to matter becomes 0, which means
// never.
func known(d time.Duration) uint64 {
	if d >= maxQuiet {
		return 0
	}
	return age(d)
}

func standToWire(m Stand) *wire.MembershipStand {
	w := &wire.MembershipStand{Seq: m.Seq, Version: m.Version, Got: m.Got, Server: uint32(m.Server), AliveMilliseconds: known(m.Alive)}
	for _, a := range m.Except {
		w.Except = append(w.Except, toWire(a))
	}
	for _, c := range m.Dead {
		w.Dead = append(w.Dead, &wire.MembershipContact{Node: toWire(c.Node), Milliseconds: age(c.Age)})
	}
	return w
}

func standFromWire(target uint32, w *wire.MembershipStand) (Stand, error) {
	m := Stand{Target: target, Seq: w.Seq, Version: w.Version, Got: w.Got, Server: ServerMark(w.Server), Alive: milliseconds(w.AliveMilliseconds)}
	for _, e := range w.Except {
		a, err := fromWire(e)
		if err != nil {
			return Stand{}, err
		}
		m.Except = append(m.Except, a)
	}
	for _, c := range w.Dead {
		a, err := fromWire(c.GetNode())
		if err != nil {
			return Stand{}, err
		}
		m.Dead = append(m.Dead, Contact{a, milliseconds(c.GetMilliseconds())})
	}
	return m, nil
}

// checkTable bounds an encoded table's lists.
func checkTable(plain []byte, sent int) error {
	sent = min(sent, maxGossipBytes)
	c := census{
		maxAddresses: min(maxMembers, freeElements+sent),
		maxElements:  min(maxElements, freeElements+elementsPerByte*sent),
	}
	err := wire.EachField(plain, func(f wire.Field) error {
		switch f.Number {
		case tableAddresses:
			c.addresses++
		case tableDeleted:
			c.tombstones += numbers(f)
		case tableRows:
			c.members++
			if err := c.countElements(f.Bytes, tableRowCompat, tableRowSuspicions); err != nil {
				return err
			}
			if err := wire.EachField(f.Bytes, c.countMember); err != nil {
				return err
			}
		}
		return atMost("addresses, rows or deleted rows", max(c.addresses, c.members, c.tombstones), c.maxAddresses)
	})
	if err == nil && c.members > c.addresses {
		err = fmt.Errorf("the table has %d rows but %d addresses", c.members, c.addresses)
	}
	return err
}

func (c *census) countMember(f wire.Field) error {
	if f.Number != tableRowMember || f.Type != protowire.BytesType {
		return nil
	}
	return c.countElements(f.Bytes, memberRoles, memberMeta)
}
