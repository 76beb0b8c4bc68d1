package direct

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
)

const maxAddress = 300

var errNoMessage = errors.New("the message has no content known to this release")

func encode(m agree.Message) ([]byte, error) {
	var d wire.Direct
	switch m := m.(type) {
	case agree.Offer:
		d.Offer = &wire.DirectOffer{Lane: uint32(m.Lane), Nonce: m.Nonce[:], Key: m.Key[:], Address: m.Address}
	case agree.Accept:
		d.Accept = &wire.DirectAccept{Lane: uint32(m.Lane), Nonce: m.Nonce[:], Key: m.Key[:], Address: m.Address}
	case agree.Refusal:
		d.Refusal = &wire.DirectRefusal{Lane: uint32(m.Lane), Nonce: m.Nonce[:], Reason: m.Reason}
	case agree.Renewal:
		d.Renewal = &wire.DirectRenewal{}
	}
	return proto.Marshal(&d)
}

func decodeMessage(body []byte) (m agree.Message, err error) {
	var d wire.Direct
	if err := proto.Unmarshal(body, &d); err != nil {
		return nil, fmt.Errorf("read direct lane message: %w", err)
	}
	switch o, a, r := d.GetOffer(), d.GetAccept(), d.GetRefusal(); {
	case o != nil:
		offer := agree.Offer{Address: o.GetAddress()}
		offer.Lane, err = terms(o.GetLane(), o.GetNonce(), o.GetKey(), o.GetAddress(), &offer.Nonce, &offer.Key)
		m = offer
	case a != nil:
		accept := agree.Accept{Address: a.GetAddress()}
		accept.Lane, err = terms(a.GetLane(), a.GetNonce(), a.GetKey(), a.GetAddress(), &accept.Nonce, &accept.Key)
		m = accept
	case r != nil:
		refusal := agree.Refusal{Reason: bounded.Text(r.GetReason())}
		refusal.Lane, err = terms(r.GetLane(), r.GetNonce(), nil, "", &refusal.Nonce, nil)
		m = refusal
	case d.GetRenewal() != nil:
		m = agree.Renewal{}
	default:
		err = errNoMessage
	}
	if err != nil {
		return nil, fmt.Errorf("read direct lane message: %w", err)
	}
	return m, nil
}

// terms checks the fields that several kinds of messages have. It returns lane, and copies nonce to
// n and hash to key. If key is nil, the message has no hash.
func terms(lane uint32, nonce, hash []byte, address string, n *agree.Nonce, key *agree.Key) (int, error) {
	switch {
	case lane > math.MaxInt16:
		return 0, fmt.Errorf("lane %d is out of range (want 0 to 32767)", lane)
	case len(nonce) != len(n):
		return 0, fmt.Errorf("the nonce has %d bytes: want 16", len(nonce))
	case key != nil && len(hash) != len(key):
		return 0, fmt.Errorf("the hash of the key has %d bytes: want 32", len(hash))
	case len(address) > maxAddress:
		return 0, fmt.Errorf("the address has %d bytes: want at most %d", len(address), maxAddress)
	}
	copy(n[:], nonce)
	if key != nil {
		copy(key[:], hash)
	}
	return int(lane), nil
}
