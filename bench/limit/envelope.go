package limit

import (
	"encoding/binary"
	"errors"
)

// An envelope is an id (8 bytes), a length (4 bytes) and that many bytes.
const envelopeHeaderBytes = 12

func appendEnvelope(b []byte, id uint64, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

var errEnvelope = errors.New("read batch: cut envelope")

// nextEnvelope splits the first envelope off batch.
func nextEnvelope(batch []byte) (id uint64, payload, rest []byte, err error) {
	if len(batch) < envelopeHeaderBytes {
		return 0, nil, nil, errEnvelope
	}
	id = binary.LittleEndian.Uint64(batch)
	n := int(binary.LittleEndian.Uint32(batch[8:]))
	rest = batch[envelopeHeaderBytes:]
	if n > len(rest) {
		return 0, nil, nil, errEnvelope
	}
	return id, rest[:n], rest[n:], nil
}

// eachEnvelope calls f for the envelopes of a batch, until one is cut or f fails.
func eachEnvelope(batch []byte, f func(id uint64, payload []byte) error) error {
	for len(batch) > 0 {
		id, payload, rest, err := nextEnvelope(batch)
		if err != nil {
			return err
		}
		if err := f(id, payload); err != nil {
			return err
		}
		batch = rest
	}
	return nil
}
