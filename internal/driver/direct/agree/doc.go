// Package agree is the agreement of two processes on direct lanes: connections from one to the
// other, each of which carries the data frames of one lane. It is a state machine without
// I/O; package direct drives it.
//
// All messages go through the broker, on subjects bound to their sender, so the key in a message is
// certainly its sender's. I is the process that begins, P its peer:
//
//	I → P  Offer    lane, nonce, hash of I's key; I's address if I listens
//	P → I  Accept   lane, nonce, hash of P's key, P's address: I dials it
//	P → I  Refusal  lane, nonce, reason
//	both   Renewal  every RenewEvery while a connection is open
//
// The dialing process shows its key and then the nonce, which is valid once, and for ExpectFor after
// the Offer. A process that does not listen answers an Offer with an Offer of its own. If two processes
// that both listen offer each other the same lane at once, only the Offer of the lower address
// counts. So there is at most one connection for two processes and a lane.
//
// Members make no offers to clients, because clients begin every exchange and never listen. A
// client's address is ignored, so that no client can make a member dial an address of its choice.
//
// A connection is closed after HeardFor without messages from its peer, so a process that loses its
// access to the broker loses its direct lanes too.
package agree
