package message

import "github.com/shardgen/shardgen/transport"

func addr(name string, incarnation uint64) transport.Address {
	return transport.Address{Name: name, Incarnation: incarnation}
}
