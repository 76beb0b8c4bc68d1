package control

import (
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

type sender struct {
	env     Env
	cluster string
	self    transport.Peer
}

func (s *sender) seal(topic wire.ControlTopic, body []byte) []byte {
	return wire.SealControl(s.cluster, s.self, topic, body)
}

// send sends a message to a process, or to every member if to is zero. If err, the error of
// encoding body, is not nil, send only logs it.
func (s *sender) send(to transport.Peer, topic wire.ControlTopic, body []byte, err error) {
	if err != nil {
		s.env.Log(Error, "control message not sent", "to", to.String(), "err", err)
		return
	}
	b := s.seal(topic, body)
	if to.IsZero() {
		err = s.env.Link().Broadcast(b)
	} else {
		err = s.env.Link().Send(transport.Control, to, 0, b)
	}
	if err != nil && !errors.Is(err, transport.ErrDisconnected) && !errors.Is(err, transport.ErrClosed) {
		s.env.LogSeldom(Error, "control message not sent", topic.String(), "to", to.String(), "bytes", len(b), "err", err)
	}
}

func (s *sender) sendSingleton(to transport.Peer, m singleton.Message) {
	body, err := singleton.Encode(m)
	s.send(to, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body, err)
}

func (s *sender) newer(err error) {
	s.env.Count(Newer)
	s.env.Log(Debug, "a later release's message skipped", "err", bounded.Error(err))
}

// foreign counts bytes that are not a message of this cluster. from, the sender, need not be a
// member.
func (s *sender) foreign(from transport.Address, bytes int, err error) {
	if n, tell := s.env.CountOf(Foreign, from.Name); tell {
		s.env.Log(Warn, "foreign bytes refused", "channel", "control", "from", from.Name, "bytes", bytes, "err", bounded.Error(err), "count", n)
	}
}

// limit returns how many bytes the body of a message may have.
func (s *sender) limit() int { return s.env.Link().MaxPayload() - envelopeOverhead }

// envelopeOverhead bounds the bytes that the control envelope adds to a body.
const envelopeOverhead = 512

func unknownTopic(topic wire.ControlTopic) error {
	return fmt.Errorf("topic %d is unknown to this release (upgrade this node)", topic)
}
