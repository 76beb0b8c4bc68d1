package memorystream_test

import (
	"testing"

	"github.com/shardgen/shardgen/stream/conformance"
	memorystream "github.com/shardgen/shardgen/stream/memory"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(*testing.T) conformance.Harness {
		s, deleted := memorystream.New(2), 0
		return conformance.Harness{
			Source: s,
			Publish: func(_ *testing.T, partition int, data ...string) {
				for _, d := range data {
					s.Publish(partition, "s", []byte(d))
				}
			},
			Delete: func(_ *testing.T, partition int, to uint64) {
				s.Delete(partition, int(to)-deleted)
				deleted = int(to)
			},
			Remake: func(*testing.T) { s.Remake() },
			Restart: func(*testing.T) {
				s.Cut(true)
				s.Cut(false)
			},
		}
	})
}
