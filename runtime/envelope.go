package shard

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// controlFormat is the version of the control channel's envelope.
const controlFormat = 1

// sealControl puts a message of a topic into the control channel's envelope.
func sealControl(cluster string, from transport.Peer, topic wire.ControlTopic, body []byte) []byte {
	b, err := proto.Marshal(&wire.Control{
		Format: controlFormat, Cluster: cluster, From: from.Name, Incarnation: from.Incarnation,
		Client: from.Client, Topic: topic, Body: body,
	})
	if err != nil {
		panic("marshal a control message: " + err.Error()) // names were checked: it cannot fail
	}
	return b
}

// openControl reads the control channel's envelope. Foreign bytes give an error.
func openControl(cluster string, b []byte) (from transport.Peer, topic wire.ControlTopic, body []byte, err error) {
	var c wire.Control
	if err := proto.Unmarshal(b, &c); err != nil {
		return from, 0, nil, fmt.Errorf("read control message: %w", err)
	}
	switch {
	case c.GetFormat() == 0 || c.GetFormat() > controlFormat:
		return from, 0, nil, fmt.Errorf("read control message: format %d, this program reads up to %d", c.GetFormat(), controlFormat)
	case c.GetCluster() != cluster:
		return from, 0, nil, fmt.Errorf("read control message: it is of cluster %q, not %q", clip(c.GetCluster()), cluster)
	}
	if err := transport.CheckName("sender", c.GetFrom()); err != nil {
		return from, 0, nil, fmt.Errorf("read control message: %w", err)
	}
	from.Name, from.Incarnation, from.Client = c.GetFrom(), c.GetIncarnation(), c.GetClient()
	return from, c.GetTopic(), c.GetBody(), nil
}
