package durable

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
)

// TestVerifyKeys: Verify finds a key that a leaf has lost. At the end of each run a check has made
// sure that Verify finds nothing else.
func TestVerifyKeys(t *testing.T) {
	checked := 0
	for seed := uint64(1); seed < 60; seed++ {
		random := newRandom(seed)
		p := newPlan(random)
		if p.index(seed); !p.indexes {
			continue
		}
		r := newRun(p, random, nil)
		if err := r.all().Err; err != nil {
			t.Fatal(err)
		}
		for _, shard := range r.shards() {
			checked += r.loseKey(shard)
		}
	}
	if checked == 0 {
		t.Error("no lost key was found")
	}
}

// loseKey removes the last key from leaves of the catalog. It returns how many problems Verify then
// finds.
func (r *run) loseKey(shard int) (found int) {
	k := r.server.shards[shard]
	for key, all := range k.records { //arch:order-free each by itself
		leaf := &wire.DurableLeaf{}
		last := &all[len(all)-1]
		if key[0] != 'x' || len(last.Value) == 0 || decode(last.Value, leaf) != nil || len(leaf.GetKeys()) == 0 || leaf.GetKeys()[len(leaf.GetKeys())-1][0] != 2 {
			continue
		}
		was := last.Value
		leaf.Keys = leaf.Keys[:len(leaf.Keys)-1]
		last.Value = sealed(r, leaf)
		if r.verified(shard) != nil {
			found++
		}
		last.Value = was
	}
	return found
}

// sealed encodes m as the core does.
func sealed(r *run, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		r.w.fail("%v", err)
	}
	b = b[:len(b)-5] // the old sum
	return binary.LittleEndian.AppendUint32(append(b, 15<<3|5), crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
