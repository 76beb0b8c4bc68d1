package durable

import "hash/crc32"

// absent knows of many entities that they have no record, so that the first call of a new entity
// reads nothing. It is for a shard that had no head before this home's: nobody else has written
// records of it. It is a Bloom filter of the entities whose records this home has begun to write.
type absent struct {
	fresh bool     // the shard had no head
	bits  []uint64 // nil: no record was written
}

const (
	// With records of 26,000 entities, one in a hundred other entities is read for nothing.
	absentWords  = 32 << 10 / 8
	absentHashes = 7
)

// sure reports whether the entity certainly has no record.
func (a *absent) sure(id string) bool {
	if !a.fresh {
		return false
	}
	if a.bits == nil {
		return true
	}
	step, at := start(id)
	for range absentHashes {
		if a.bits[at/64%absentWords]&(1<<(at%64)) == 0 {
			return true
		}
		at += step
	}
	return false
}

// written notes that a record of the entity is to be written.
func (a *absent) written(id string) {
	if !a.fresh {
		return
	}
	if a.bits == nil {
		a.bits = make([]uint64, absentWords)
	}
	step, at := start(id)
	for range absentHashes {
		a.bits[at/64%absentWords] |= 1 << (at % 64)
		at += step
	}
}

var absentTable = crc32.MakeTable(crc32.Castagnoli)

// start returns the distance from each of an id's bits to the next, and the first of them.
func start(id string) (step, at uint32) {
	b := []byte(id)
	return crc32.ChecksumIEEE(b) | 1, crc32.Checksum(b, absentTable)
}
