package durable

import "encoding/binary"

// balanceOf is the number at the beginning of an encoded state, which is above the balance by the shift
// of its version, or the change of an encoded event.
func balanceOf(state []byte) int64 {
	balance, _ := binary.Varint(state)
	return balance
}

// shift is how much states of a version have above the balance. A program that took a state for one of
// another version would find another balance.
func shift(form uint32) int64 { return int64(form) << 40 }

// added encodes an event: the change of the balance, and padding.
func added(change int64, padding int) []byte {
	return append(binary.AppendVarint(nil, change), make([]byte, padding)...)
}

// fold is the balance of a state after events.
func fold(state []byte, events [][]byte) int64 {
	balance := balanceOf(state)
	for _, e := range events {
		balance += balanceOf(e)
	}
	return balance
}
