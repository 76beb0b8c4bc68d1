package message

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

const (
	// compressFrom is the size from which compression is worthwhile, in bytes.
	compressFrom = 512
	// maxQuiet bounds the silence that a record may claim.
	maxQuiet = 24 * time.Hour
)

type addressTable struct {
	places map[transport.Address]uint32
	list   []*wire.MembershipAddress
}

func newAddressTable() *addressTable {
	return &addressTable{places: make(map[transport.Address]uint32)}
}

func (t *addressTable) place(a transport.Address) uint32 {
	i, ok := t.places[a]
	if !ok {
		i = uint32(len(t.list))
		t.places[a] = i
		t.list = append(t.list, toWire(a))
	}
	return i
}

func (t *addressTable) placeClock(v gossip.VectorClock) (nodes []uint32, counts []uint64) {
	for _, e := range v {
		nodes = append(nodes, t.place(e.Node))
		counts = append(counts, e.Count)
	}
	return nodes, counts
}

// addresses holds a received message's addresses. The first index outside the list sets err,
// which the caller checks at the end.
type addresses struct {
	list []transport.Address
	err  error
}

func readAddresses(list []*wire.MembershipAddress) (*addresses, error) {
	out := &addresses{list: make([]transport.Address, len(list))}
	for i, w := range list {
		a, err := fromWire(w)
		if err != nil {
			return nil, err
		}
		out.list[i] = a
	}
	return out, nil
}

func (t *addresses) at(place uint32) transport.Address {
	if int64(place) >= int64(len(t.list)) {
		t.err = fmt.Errorf("address index %d, but the message has %d addresses", place, len(t.list))
		return transport.Address{}
	}
	return t.list[place]
}

func (t *addresses) clock(nodes []uint32, counts []uint64) gossip.VectorClock {
	if len(nodes) != len(counts) {
		t.err = fmt.Errorf("the version has %d nodes but %d counts", len(nodes), len(counts))
		return nil
	}
	var v gossip.VectorClock
	for i, node := range nodes {
		v = append(v, gossip.ClockEntry{Node: t.at(node), Count: counts[i]})
	}
	return v
}

func stateToWire(g *gossip.State) (*wire.MembershipState, error) {
	if g == nil {
		return nil, errors.New("the message has no state")
	}
	plain, err := proto.Marshal(gossipToWire(g))
	if err != nil {
		return nil, err
	}
	if len(plain) > maxGossipBytes {
		return nil, fmt.Errorf("the state has %d bytes: want at most %d (shorten Config.Meta?)", len(plain), maxGossipBytes)
	}
	if len(plain) >= compressFrom {
		packed, err := deflate(plain)
		if err != nil {
			return nil, err
		}
		if len(plain) <= unpackedLimit(len(packed)) && checkState(plain, len(packed)) == nil {
			return &wire.MembershipState{Compression: wire.MembershipState_DEFLATE, Gossip: packed}, nil
		}
	}
	// A state is sent uncompressed if receivers would refuse its compressed form, because that is
	// too small for the state's lists.
	if err := checkState(plain, len(plain)); err != nil {
		return nil, fmt.Errorf("the state has %w (shorten Config.Meta?)", err)
	}
	return &wire.MembershipState{Gossip: plain}, nil
}

// deflaters holds compressors for reuse: each takes over half a megabyte.
var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

func deflate(plain []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&packed)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

func gossipToWire(g *gossip.State) *wire.MembershipGossip {
	t := newAddressTable()
	w := &wire.MembershipGossip{
		Founder:        t.place(g.Founder),
		UpCounter:      g.UpCounter,
		RemovalCounter: g.RemovalCounter,
		Seen:           seenToWire(g.Seen, len(g.Members)),
	}
	for _, m := range g.Members {
		w.Members = append(w.Members, memberToWire(t, m))
	}
	for _, row := range g.Rows {
		out := &wire.MembershipRow{Observer: t.place(row.Observer), Version: row.Version}
		for _, r := range row.Records {
			out.Records = append(out.Records, &wire.MembershipRecord{
				Subject:           t.place(r.Subject),
				Evidence:          wire.MembershipRecord_Evidence(r.Evidence),
				QuietMilliseconds: uint64(min(r.Quiet, maxQuiet).Milliseconds()),
				WordMilliseconds:  uint64(min(r.Vouched, maxQuiet).Milliseconds()),
			})
		}
		w.Rows = append(w.Rows, out)
	}
	for _, s := range g.Tombstones {
		w.Tombstones = append(w.Tombstones, &wire.MembershipTombstone{Address: t.place(s.Node), Number: s.Number, Left: s.Left})
	}
	if g.Ruling != (gossip.Ruling{}) {
		w.Ruling = &wire.MembershipRuling{Holder: t.place(g.Ruling.Holder), Token: g.Ruling.Token}
	}
	w.VersionNodes, w.VersionCounts = t.placeClock(g.Version)
	w.Addresses = t.list
	return w
}

func memberToWire(t *addressTable, m gossip.Member) *wire.MembershipMember {
	return &wire.MembershipMember{
		Address:   t.place(m.Address),
		Status:    wire.MembershipMember_Status(m.Status),
		Roles:     m.Roles,
		UpNumber:  m.UpNumber,
		ExitReady: m.ExitReady,
		Forced:    m.Forced,
		Judged:    m.Judged,
		Fenced:    m.Fenced,
		Meta:      keyValuesToWire(m.Meta),

		Quarantined: m.Quarantined,
	}
}

func memberFromWire(t *addresses, m *wire.MembershipMember) (gossip.Member, error) {
	if m.GetStatus() < 0 || m.GetStatus() > wire.MembershipMember_DOWN {
		return gossip.Member{}, fmt.Errorf("%w: status %d", ErrUnknown, m.GetStatus())
	}
	return gossip.Member{
		Address:   t.at(m.GetAddress()),
		Status:    gossip.Status(m.GetStatus()),
		Roles:     m.GetRoles(),
		UpNumber:  m.GetUpNumber(),
		ExitReady: m.GetExitReady(),
		Forced:    m.GetForced(),
		Judged:    m.GetJudged(),
		Fenced:    m.GetFenced(),
		Meta:      keyValuesFromWire(m.GetMeta()),

		Quarantined: m.GetQuarantined(),
	}, nil
}

func stateFromWire(w *wire.MembershipState) (*gossip.State, error) {
	plain, err := unpack(w)
	if err != nil {
		return nil, fmt.Errorf("unpack state: %w", err)
	}
	if err := checkState(plain, len(w.GetGossip())); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	in := &wire.MembershipGossip{}
	if err := proto.Unmarshal(plain, in); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	g, err := gossipFromWire(in)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return g, nil
}

func unpack(w *wire.MembershipState) ([]byte, error) {
	sent := w.GetGossip()
	limit := unpackedLimit(len(sent))
	switch w.GetCompression() {
	case wire.MembershipState_NONE:
		if len(sent) > maxGossipBytes {
			return nil, fmt.Errorf("more than %d bytes", maxGossipBytes)
		}
		return sent, nil
	case wire.MembershipState_DEFLATE:
		plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(sent)), int64(limit)+1))
		if err == nil && len(plain) > limit {
			err = fmt.Errorf("more than %d bytes", limit)
		}
		return plain, err
	}
	return nil, fmt.Errorf("%w: compression %d", ErrUnknown, w.GetCompression())
}

func gossipFromWire(w *wire.MembershipGossip) (*gossip.State, error) {
	t, err := readAddresses(w.Addresses)
	if err != nil {
		return nil, err
	}
	g := &gossip.State{
		Founder:        t.at(w.Founder),
		UpCounter:      w.UpCounter,
		RemovalCounter: w.RemovalCounter,
		Version:        t.clock(w.VersionNodes, w.VersionCounts),
	}
	for _, m := range w.Members {
		member, err := memberFromWire(t, m)
		if err != nil {
			return nil, err
		}
		g.Members = append(g.Members, member)
	}
	if g.Seen, err = seenFromWire(w.Seen, len(g.Members)); err != nil {
		return nil, err
	}
	for _, row := range w.Rows {
		out := gossip.ObserverRow{Observer: t.at(row.GetObserver()), Version: row.GetVersion()}
		for _, r := range row.GetRecords() {
			if r.GetEvidence() < 0 || r.GetEvidence() > wire.MembershipRecord_GONE {
				return nil, fmt.Errorf("%w: evidence %d", ErrUnknown, r.GetEvidence())
			}
			quiet, word := milliseconds(r.GetQuietMilliseconds()), milliseconds(r.GetWordMilliseconds())
			out.Records = append(out.Records, gossip.Record{Subject: t.at(r.GetSubject()), Evidence: gossip.Evidence(r.GetEvidence()), Quiet: quiet, Vouched: word})
		}
		g.Rows = append(g.Rows, out)
	}
	for _, s := range w.Tombstones {
		g.Tombstones = append(g.Tombstones, gossip.Tombstone{Node: t.at(s.GetAddress()), Number: s.GetNumber(), Left: s.GetLeft()})
	}
	if r := w.Ruling; r != nil {
		g.Ruling = gossip.Ruling{Holder: t.at(r.GetHolder()), Token: r.GetToken()}
	}
	if t.err != nil {
		return nil, t.err
	}
	return g, g.Received()
}
