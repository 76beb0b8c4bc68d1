package listing

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"testing"

	"github.com/shardgen/shardgen/internal/wire"
)

// BenchmarkList lists 262,144 ids of 13 bytes, whose pages are made from memory.
func BenchmarkList(b *testing.B) {
	for _, shards := range []int{64, 4096} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			of := make([][]string, shards)
			for i := range 1 << 18 {
				of[i%shards] = append(of[i%shards], fmt.Sprintf("account-%05x", i*7919%(1<<18)))
			}
			for _, ids := range of {
				slices.Sort(ids)
			}
			l := Lister{Kind: "T", Shards: shards, Ask: func(_ context.Context, shard int, request []byte) ([]byte, error) {
				r, err := wire.ParseListRequest(request)
				if err != nil {
					return nil, err
				}
				most, size := Limits(&r, 1<<20)
				ids := of[shard]
				ids = ids[sort.Search(len(ids), func(i int) bool { return ids[i] > r.After }):]
				page, more := Fit(ids[:min(len(ids), most)], len(ids) > most, size)
				return wire.AppendListPage(nil, page, more), nil
			}}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, err := range l.List(b.Context(), wire.ListRequest{}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "ids/s")
		})
	}
}
