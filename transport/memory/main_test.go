package memory_test

import (
	"testing"

	"github.com/shardgen/shardgen/transport/conformance"
)

func TestMain(m *testing.M) { conformance.Main(m) }
