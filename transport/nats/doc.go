// Package natstransport carries shardgen's frames over NATS.
//
// # Connections
//
// A link holds one connection per lane and one for control, so that load never
// delays a heartbeat and each channel has one order. A connection lives and
// dies with its TCP connection: nats.go is told not to reconnect, and the link
// opens the next one itself. This has three effects that nats.go's own
// reconnecting does not have: a publish can never go out on the next connection
// before OnState has reported that this one broke; a drained subscription cannot come
// back; and an error that makes nats.go give up for good is only one more break.
//
// The link pings its servers itself. If a server's answer is an interval late, the link
// opens a second connection, which replaces the first. The socket of a control
// connection that was given up without an answer stays open, unread, until the next
// connection listens, so that the broker does not report this node as gone while its
// process lives.
//
// # Subjects
//
// With cluster c, node name n and incarnation i in 16 hexadecimal digits:
//
//	sh.c.n.n.i.<lane>            frames to a member, per lane
//	sh.c.n.n.i.ctl               control frames to a member
//	sh.c.r.n.i.<lane|ctl>.f      frames to a client
//	sh.c.r.n.i.<lane|ctl>.u.…    no-responders answers to Send
//	sh.c.r.n.i.ctl.a.…           no-responders answers to Anycast
//	sh.c.ctl.all                 to all members
//	sh.c.gw.ctl                  to any one member (queue group "gw")
//	sh.c.gw.<kind>.<method>.<id> requests of any client, to any one member that
//	                             serves the kind (queue group "gw", Config.Gateway)
//
// A member listens to all of them but the gateway's from the start. It enters the
// queue group by Serve(true), on each connection until Serve(false), and leaves
// it by draining: it still receives the messages that the server had given it.
//
// All subscriptions of a channel feed one Go channel, so that its receiver sees
// the order in which the server wrote.
//
// # No responders
//
// Each publish names a reply subject of its own connection: the server answers
// 503 there when it knows no subscriber. The answer has an empty payload, so the
// reply subject itself carries the peer and the token.
package natstransport
