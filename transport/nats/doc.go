// Package natstransport carries shardgen's frames over NATS.
//
// # Connections
//
// A link has one connection for each lane and one for control, so that load never delays a
// heartbeat and each channel keeps its order. nats.go's own reconnecting is switched off: a
// connection ends with its TCP connection, and the link opens the next one itself. So no publish
// goes out on the next connection before OnState has reported the break, a drained subscription
// cannot come back, and an error that makes nats.go give up counts as one more break.
//
// The link pings its servers itself. If an answer is late by one ping interval, the link opens a
// second connection, which replaces the first. The socket of a control connection to a silent
// server stays open, unread, until the next connection listens. Otherwise the broker would report a
// living node as gone.
//
// # Subjects
//
// In these subjects c is the cluster, n.i a member (its name, and its incarnation in 16 hexadecimal
// digits), and p.i a client or operator (its name, which the broker grants, and its incarnation):
//
//	sh.c.m.n.i.<lane|ctl>            to a member, from members
//	sh.c.m.all, sh.c.m.any           to all members; to one serving
//	sh.c.c.p.i.n.i.<lane|ctl>        to a member, from a client
//	sh.c.c.p.i.any                   to a serving member
//	sh.c.o.p.<get|do>.i.n.i          to a member, from an operator
//	sh.c.o.p.<get|do>.i.<all|any>    to all members; to one serving
//	sh.c.r.m.n.i.<lane|ctl>.…        the broker's reports to a member that nobody listens
//	sh.c.r.c.p.i.<lane|ctl>.f        to a client, from members; .u and .a are the broker's reports
//	sh.c.r.o.p.i.<lane|ctl>.f        to an operator, likewise
//	sh.c.g.<caller>.<kind>.<method>.<id>
//	                                 requests of any NATS client, to any one member serving
//	                                 the kind (queue group "gw", Config.Gateway); answered
//	                                 below _INBOX.<caller>. only
//
// Permissions restrict the words that name the sender: the client p, for example, may publish to
// "sh.c.c.p.>". The sender of a message is read from these words, never from the payload.
//
// From the start a member listens on its own subjects, on those of "all", and for the broker's
// reports to it. After Serve(true) each of its connections joins the queue group "any".
// Serve(false) drains this subscription, so the member still receives the messages that the server
// had given it.
//
// The messages of all subscriptions of a channel go to one Go channel, so the receiver gets each
// sender's messages in the server's order.
//
// # No responders
//
// Each published message, except a broadcast, has a reply subject of the sender's channel. If the
// server knows no subscriber, it answers there with status 503. That answer has an empty payload,
// so the reply subject itself carries the peer and the token.
package natstransport
