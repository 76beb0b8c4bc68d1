package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/transport"
)

// ControlFormat is the version of the form of messages on the control channel.
const ControlFormat = 3

// SealControl encodes a message on the control channel: body, with its topic, its sender and the
// sender's cluster.
func SealControl(cluster string, from transport.Peer, topic ControlTopic, body []byte) []byte {
	b, err := proto.Marshal(&Control{
		Format: ControlFormat, Cluster: cluster, From: from.Name, Incarnation: from.Incarnation,
		Client: from.Client, Topic: topic, Body: body,
	})
	if err != nil {
		panic("marshal a control message: " + err.Error()) // names were checked: it cannot fail
	}
	return b
}

// OpenControl decodes the output of SealControl. It returns an error for any other bytes, and for a
// message of another cluster.
func OpenControl(cluster string, b []byte) (from transport.Peer, topic ControlTopic, body []byte, err error) {
	var c Control
	if err := proto.Unmarshal(b, &c); err != nil {
		return from, 0, nil, fmt.Errorf("read control message: %w", err)
	}
	switch {
	case c.GetFormat() == 0 || c.GetFormat() > ControlFormat:
		return from, 0, nil, fmt.Errorf("read control message: format %d: this program reads 1 to %d", c.GetFormat(), ControlFormat)
	case c.GetCluster() != cluster:
		return from, 0, nil, fmt.Errorf("read control message: the message is from cluster %.80q: want %q", c.GetCluster(), cluster)
	}
	if err := transport.CheckName("sender", c.GetFrom()); err != nil {
		return from, 0, nil, fmt.Errorf("read control message: %w", err)
	}
	from.Name, from.Incarnation, from.Client = c.GetFrom(), c.GetIncarnation(), c.GetClient()
	return from, c.GetTopic(), c.GetBody(), nil
}
