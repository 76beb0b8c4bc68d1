package message

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// format is the version of the encoding. Adding fields does not change it: readers skip unknown
// fields.
const format = 1

// Encode encodes a message as defined in internal/wire/membership.proto.
func Encode(m Message) ([]byte, error) {
	w := &wire.MembershipMessage{Format: format}
	if err := encodeBody(w, m); err != nil {
		return nil, fmt.Errorf("encode membership message: %T: %w", m, err)
	}
	b, err := proto.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode membership message: %T: %w", m, err)
	}
	return b, nil
}

func encodeBody(w *wire.MembershipMessage, m Message) error {
	var err error
	switch m := m.(type) {
	case Hello:
		w.Body = &wire.MembershipMessage_Hello{Hello: &wire.MembershipHello{
			Attempt: m.Attempt, Seeds: m.Seeds, IntervalMilliseconds: uint32(min(m.Interval, maxQuiet).Milliseconds()), Claim: m.Claim,
		}}
	case HelloAck:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_HelloAck{HelloAck: &wire.MembershipHelloAck{}}
		if !m.Founder.IsZero() {
			w.GetHelloAck().Founder = toWire(m.Founder)
		}
	case Join:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_Join{Join: &wire.MembershipJoin{
			Roles: m.Roles, Meta: keyValuesToWire(m.Meta), Compat: keyValuesToWire(m.Compat), Version: m.Version, Server: m.Server, Proved: m.Proved,
		}}
	case Welcome:
		w.Target = m.Target
		b := &wire.MembershipMessage_Welcome{}
		b.Welcome, err = stateToWire(m.State)
		w.Body = b
	case JoinRefused:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_JoinRefused{JoinRefused: &wire.MembershipJoinRefused{Final: m.Final, Reason: m.Reason}}
	case Gossip:
		w.Target = m.Target
		b := &wire.MembershipMessage_Gossip{}
		b.Gossip, err = stateToWire(m.State)
		w.Body = b
	case Status:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_Status{Status: statusToWire(m)}
	case Heartbeat:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_Heartbeat{Heartbeat: &wire.MembershipHeartbeat{
			Seq: m.Seq, Server: uint32(m.Server), Heard: m.Heard, Bound: m.Bound,
		}}
	case HeartbeatAck:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_HeartbeatAck{HeartbeatAck: &wire.MembershipHeartbeat{Seq: m.Seq, Server: uint32(m.Server)}}
	case Alive:
		w.Body = &wire.MembershipMessage_Alive{Alive: &wire.MembershipAlive{
			Founder: toWire(m.Founder), Size: m.Size, Barred: m.Barred, Server: uint32(m.Server), Bound: m.Bound,
		}}
	case Echo:
		w.Body = &wire.MembershipMessage_Echo{Echo: &wire.MembershipEcho{Seq: m.Seq}}
	case Removal:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_Removal{Removal: &wire.MembershipRemoval{Left: m.Left}}
	case Vote:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_Vote{Vote: &wire.MembershipVote{
			Seq: m.Seq, Barred: m.Barred, Voters: m.Voters, Server: uint32(m.Server),
		}}
	case VoteAck:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_VoteAck{VoteAck: &wire.MembershipVoteAck{
			Seq: m.Seq, MajorityMilliseconds: age(m.Majority), AllMilliseconds: age(m.All), EveryMilliseconds: age(m.Every),
			HeardMilliseconds: age(m.Heard),
		}}
	case Snapshot:
		w.Target = m.Target
		b := &wire.MembershipMessage_Snapshot{}
		b.Snapshot, err = tableToWire(m)
		w.Body = b
	case Stand:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_Stand{Stand: standToWire(m)}
	case StandAck:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_StandAck{StandAck: &wire.MembershipStandAck{
			Seq: m.Seq, Number: m.Number, Version: m.Version,
			AgeMilliseconds: known(m.Age), WrittenMilliseconds: known(m.Written),
		}}
	case Probe:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_Probe{Probe: &wire.MembershipProbe{Seq: m.Seq, Version: m.Version, Server: uint32(m.Server)}}
	case ProbeAck:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_ProbeAck{ProbeAck: &wire.MembershipProbe{Seq: m.Seq, Version: m.Version}}
	case IndirectProbe:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_IndirectProbe{IndirectProbe: &wire.MembershipIndirectProbe{
			Seq: m.Seq, Subject: toWire(m.Subject), WithinMilliseconds: age(m.Within),
		}}
	case IndirectAck:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_IndirectAck{IndirectAck: &wire.MembershipIndirectAck{Seq: m.Seq, Reached: m.Reached, Health: m.Health}}
	case Touch:
		w.Target = m.Target
		w.Body = &wire.MembershipMessage_Touch{Touch: &wire.MembershipTouch{}}
	default:
		err = errors.New("unknown message type")
	}
	return err
}

// Decode reads the output of [Encode]. The bytes may come from any process: a decoded
// message is well formed, but its content need not be true.
func Decode(b []byte) (Message, error) {
	if err := checkMessage(b); err != nil {
		return nil, fmt.Errorf("decode membership message: %d bytes: %w", len(b), err)
	}
	w := &wire.MembershipMessage{}
	if err := proto.Unmarshal(b, w); err != nil {
		return nil, fmt.Errorf("decode membership message: %d bytes: %w", len(b), err)
	}
	if w.Format != format {
		return nil, fmt.Errorf("decode membership message: format %d: want %d (does every node run the same release?)", w.Format, format)
	}
	m, err := decodeBody(w)
	if err != nil {
		return nil, bounded.Error(fmt.Errorf("decode membership message: %w", err))
	}
	return m, nil
}

// ErrUnknown means that a message has a kind or a value known only to a later release. Receivers
// skip such a message.
var ErrUnknown = errors.New("unknown kind (is the sender newer?)")

func decodeBody(w *wire.MembershipMessage) (Message, error) {
	target := w.GetTarget()
	switch b := w.Body.(type) {
	case *wire.MembershipMessage_Hello:
		return Hello{b.Hello.Attempt, b.Hello.Seeds, milliseconds(uint64(b.Hello.IntervalMilliseconds)), b.Hello.Claim}, nil
	case *wire.MembershipMessage_HelloAck:
		founder, err := fromWire(b.HelloAck.Founder)
		return HelloAck{target, founder}, err
	case *wire.MembershipMessage_Join:
		return Join{
			target, b.Join.Roles, keyValuesFromWire(b.Join.Meta), keyValuesFromWire(b.Join.Compat), b.Join.Version, b.Join.Server, b.Join.Proved,
		}, nil
	case *wire.MembershipMessage_Welcome:
		g, err := stateFromWire(b.Welcome)
		return Welcome{target, g}, err
	case *wire.MembershipMessage_JoinRefused:
		return JoinRefused{target, b.JoinRefused.Final, b.JoinRefused.Reason}, nil
	case *wire.MembershipMessage_Gossip:
		g, err := stateFromWire(b.Gossip)
		return Gossip{target, g}, err
	case *wire.MembershipMessage_Status:
		s, err := statusFromWire(b.Status)
		s.Target = target
		return s, err
	case *wire.MembershipMessage_Heartbeat:
		h := b.Heartbeat
		return Heartbeat{target, h.Seq, ServerMark(h.Server), h.Heard, h.Bound}, nil
	case *wire.MembershipMessage_HeartbeatAck:
		return HeartbeatAck{target, b.HeartbeatAck.Seq, ServerMark(b.HeartbeatAck.Server)}, nil
	case *wire.MembershipMessage_Alive:
		founder, err := fromWire(b.Alive.Founder)
		if err == nil && founder.IsZero() {
			err = errors.New("the Alive message has no founder")
		}
		return Alive{founder, b.Alive.Size, b.Alive.Barred, ServerMark(b.Alive.Server), b.Alive.Bound}, err
	case *wire.MembershipMessage_Echo:
		return Echo{b.Echo.Seq}, nil
	case *wire.MembershipMessage_Removal:
		return Removal{target, b.Removal.Left}, nil
	case *wire.MembershipMessage_Vote:
		v := b.Vote
		return Vote{target, v.Seq, v.Barred, v.Voters, ServerMark(v.Server)}, nil
	case *wire.MembershipMessage_VoteAck:
		a := b.VoteAck
		return VoteAck{target, a.Seq, milliseconds(a.MajorityMilliseconds), milliseconds(a.AllMilliseconds), milliseconds(a.EveryMilliseconds), milliseconds(a.HeardMilliseconds)}, nil
	case *wire.MembershipMessage_Snapshot:
		return tableFromWire(target, b.Snapshot)
	case *wire.MembershipMessage_Stand:
		return standFromWire(target, b.Stand)
	case *wire.MembershipMessage_StandAck:
		a := b.StandAck
		return StandAck{target, a.Seq, a.Number, a.Version, milliseconds(a.AgeMilliseconds), milliseconds(a.WrittenMilliseconds)}, nil
	case *wire.MembershipMessage_Probe:
		return Probe{target, b.Probe.Seq, b.Probe.Version, ServerMark(b.Probe.Server)}, nil
	case *wire.MembershipMessage_ProbeAck:
		return ProbeAck{target, b.ProbeAck.Seq, b.ProbeAck.Version}, nil
	case *wire.MembershipMessage_IndirectProbe:
		subject, err := fromWire(b.IndirectProbe.Subject)
		return IndirectProbe{target, b.IndirectProbe.Seq, subject, milliseconds(b.IndirectProbe.WithinMilliseconds)}, err
	case *wire.MembershipMessage_IndirectAck:
		a := b.IndirectAck
		return IndirectAck{target, a.Seq, a.Reached, a.Health}, nil
	case *wire.MembershipMessage_Touch:
		return Touch{target}, nil
	}
	return nil, ErrUnknown
}

// age converts an age to milliseconds, rounded up, because evidence that seems older only counts
// for less.
func age(d time.Duration) uint64 {
	return uint64((min(d, maxQuiet) + time.Millisecond - 1).Milliseconds())
}

// milliseconds converts a received number; more than maxQuiet counts as maxQuiet.
func milliseconds(n uint64) time.Duration {
	return time.Duration(min(n, uint64(maxQuiet.Milliseconds()))) * time.Millisecond
}

func toWire(a transport.Address) *wire.MembershipAddress {
	return &wire.MembershipAddress{Name: a.Name, Incarnation: a.Incarnation}
}

func fromWire(a *wire.MembershipAddress) (transport.Address, error) {
	if a == nil {
		return transport.Address{}, nil
	}
	if err := transport.CheckName("node", a.Name); err != nil {
		return transport.Address{}, err
	}
	return transport.Address{Name: a.Name, Incarnation: a.Incarnation}, nil
}

func keyValuesToWire(list []gossip.KeyValue) []*wire.MembershipKeyValue {
	out := make([]*wire.MembershipKeyValue, len(list))
	for i, kv := range list {
		out[i] = &wire.MembershipKeyValue{Key: kv.Key, Value: kv.Value}
	}
	return out
}

func keyValuesFromWire(list []*wire.MembershipKeyValue) []gossip.KeyValue {
	if len(list) == 0 {
		return nil
	}
	out := make([]gossip.KeyValue, len(list))
	for i, kv := range list {
		out[i] = gossip.KeyValue{Key: kv.GetKey(), Value: kv.GetValue()}
	}
	return out
}
