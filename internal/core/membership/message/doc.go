// Package message has the membership messages between the nodes of a cluster, and their encoding,
// defined in internal/wire/membership.proto.
//
// It depends on packages gossip and rows, whose states and tables messages carry, and on nothing
// else of membership. [Decode] checks a message and bounds its size, because the bytes may come
// from anybody. The machine decides whether to obey a message.
//
//   - message.go, table.go: the messages
//   - codec.go: the envelope and all small messages
//   - codec_state.go, codec_status.go: states, which are compressed, and versions
//   - codec_table.go: tables and stands
//   - limits.go: the bounds of received messages
package message
