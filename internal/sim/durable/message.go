package durable

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
)

// A method is an action that a call asks of an account.
type method uint8

const (
	add      method = iota + 1 // n to the balance
	get                        // the balance
	transfer                   // take n, and ask another account to add it first
	send                       // take n, and tell another account to add it
	fail                       // nothing, and say so
	end                        // the account ends
)

// A call is a command on its way to an account.
type call struct {
	command durable.Command
	entity  string
	method  method
	amount  int64
	other   string // the account of transfer and send
	answer  func(answer)
}

// An answer is the answer to a call.
type answer struct {
	verdict durable.Verdict // Run or Replay: it has run, and the rest is valid
	result  result
}

func ran(v durable.Verdict) bool { return v == durable.Run || v == durable.Replay }

// A result is an account's answer.
type result struct {
	balance int64
	version uint64
	failed  bool // not encoded, because a turn that failed has no commit
	ended   bool

	// Not encoded: of a turn that changed nothing.
	fresh bool // it saw nothing of the account
	// at is when a turn ran whose answer leaves only if it saw all that was committed before; zero
	// for others. A home that has lost its shard may still ask others for something.
	at   time.Time
	real time.Time // the true time of at
}

func (r result) encode() []byte {
	b := binary.AppendVarint(nil, r.balance)
	b = binary.AppendUvarint(b, r.version)
	if r.ended {
		b = append(b, 1)
	}
	return b
}

func decodeResult(b []byte) (r result) {
	balance, n := binary.Varint(b)
	version, m := binary.Uvarint(b[n:])
	return result{balance: balance, version: version, ended: len(b) > n+m}
}

// hash is the hash of a call's request.
func (c *call) hash() uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d %d %s", c.entity, c.method, c.amount, c.other)
	return h.Sum64()
}

const logName = "account"

// body encodes a tell: add to an account.
func body(entity string, amount int64) []byte {
	return append(binary.AppendVarint(nil, amount), entity...)
}

func readBody(b []byte) (entity string, amount int64) {
	amount, n := binary.Varint(b)
	return string(b[n:]), amount
}
