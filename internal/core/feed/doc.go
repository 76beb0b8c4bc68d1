// Package feed delivers the messages of one partition of a stream to durable entities, each once
// and in order per entity. A [Window] has the messages that were read and are not finished. It is a
// state machine without I/O: the driver reads, sends and stores.
//
// # Once
//
// A message becomes tells, and each tell is a command whose number follows from the message's
// position in the stream: see [Number]. The receiver commits the number together with the turn's
// changes, and commits no number twice. So it does no harm if a message is sent again, after a crash
// or by a second reader.
//
// # Order
//
// The tells to one entity are in a row: each is sent after the one before it is finished.
//
// # Dead messages
//
// A tell is given up if it fails at its receiver for long. First its number is committed at the
// receiver as dead: no other reader can apply it then. After that it is stored as a dead letter. If
// the number turns out to be applied, there is no letter.
package feed
