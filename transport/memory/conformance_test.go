package memory_test

import (
	"testing"

	"github.com/shardgen/shardgen/transport/conformance"
	"github.com/shardgen/shardgen/transport/memory"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(*testing.T) conformance.Harness {
		b := memory.NewBroker(memory.Options{})
		return conformance.Harness{Transport: b.Transport(), StopBroker: b.Stop, StartBroker: b.Start}
	})
}
