// Package natstransport carries shardgen's frames over NATS.
//
// # Connections
//
// A link holds one connection per lane and one for control, so that load never delays a heartbeat and
// each channel has one order. A connection lives and dies with its TCP connection: nats.go is told not
// to reconnect, and the link opens the next one itself. This has three effects beyond nats.go's own
// reconnecting. No publish goes out on the next connection before OnState has reported the break. A
// drained subscription cannot come back. An error that makes nats.go give up is one more break.
//
// The link pings its servers itself. If a server's answer is an interval late, the link opens a second
// connection, which replaces the first. The socket of a control connection to a silent server stays
// open, unread, until the next connection listens, so the broker does not report a living node as
// gone.
//
// # Subjects
//
// With cluster c, a member n.i (its name, and its incarnation in 16 hexadecimal digits), and a
// client or operator p.i (the name that the broker grants it, and its incarnation):
//
//	sh.c.m.n.i.<lane|ctl>            to a member, from members
//	sh.c.m.all, sh.c.m.any           to all members; to one that serves
//	sh.c.c.p.i.n.i.<lane|ctl>        to a member, from a client
//	sh.c.c.p.i.any                   to a member that serves
//	sh.c.o.p.<get|do>.i.n.i          to a member, from an operator
//	sh.c.o.p.<get|do>.i.<all|any>    to all members; to one that serves
//	sh.c.r.m.n.i.<lane|ctl>.…        the broker's reports to a member that nobody listens
//	sh.c.r.c.p.i.<lane|ctl>.f        to a client, from members; .u and .a are the broker's reports
//	sh.c.r.o.p.i.<lane|ctl>.f        to an operator, likewise
//	sh.c.g.<caller>.<kind>.<method>.<id>
//	                                 requests of any NATS client, to any one member that serves
//	                                 the kind (queue group "gw", Config.Gateway); answered
//	                                 below _INBOX.<caller>. only
//
// Permissions bind the tokens of the sender, as in publish: "sh.c.c.p.>" for the client p. The
// sender of a message is read from them, and never from the payload.
//
// A member listens from the start to the subjects that lead to it, except those of "any", and to
// the broker's reports to it. It enters the queue group "any" by Serve(true), on each connection until
// Serve(false), and leaves it by draining: it still receives the messages that the server had
// given it.
//
// All subscriptions of a channel feed one Go channel, so its receiver sees the messages of each sender
// in the server's order.
//
// # No responders
//
// Each publish but a broadcast names a reply subject of its own channel: the server answers
// 503 there when it knows no subscriber. The answer has an empty payload, so the
// reply subject itself carries the peer and the token.
package natstransport
