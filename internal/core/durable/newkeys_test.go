package durable

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/util/ordered"
)

// TestNewKeys: finds get the keys in order and once, whenever they were added. Keys that are no
// longer in moved do not pile up, with finds or without.
func TestNewKeys(t *testing.T) {
	for _, finds := range []bool{true, false} {
		c := catalog{moved: map[string]*moved{}}
		move := func(id string, value int) {
			key := string(ordered.AppendInt(ordered.AppendField(nil, 1), value))
			c.moved[id] = &moved{keys: []string{key}}
			c.news.add(&c, indexKey(key, id))
		}
		move("z", 1)
		require.Len(t, c.news.from(&c, ""), 1, "what moved before the first find")
		want := map[string]string{"z": indexKey(c.moved["z"].keys[0], "z")}
		for i := range 20 * fewKeys {
			id := fmt.Sprint("e", i%100)
			move(id, i*7919%(20*fewKeys)) // in place of its key before
			want[id] = indexKey(c.moved[id].keys[0], id)
			if finds && i%10 == 0 {
				c.news.from(&c, "")
			}
			require.LessOrEqual(t, len(c.news.sorted)+len(c.news.added), 3*fewKeys+500)
		}
		all := c.news.from(&c, "")
		require.True(t, slices.IsSorted(all))
		require.Len(t, slices.Compact(slices.Clone(all)), len(all), "each once")
		for id, key := range want {
			require.Contains(t, all, key, id)
			require.Equal(t, key, c.news.from(&c, key)[0])
		}
	}
}
