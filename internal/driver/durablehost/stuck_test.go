package durablehost

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store/memory"
)

// TestStuckIsTold: a shard that does not open for long is reported with its epochs and the remedy.
// A shard that opens or is given up is not reported.
func TestStuckIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		cut   bool // the store does not answer
		other bool // another home has it
		want  []string
	}{
		"store": {cut: true, want: []string{"epoch 3.1.0 is not confirmed: ", "shardctl doctor"}},
		"met":   {other: true, want: []string{"epoch 3.1.0 met 3.2.0", "the coordinator has not begun a later term"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memory.New()
				if tt.other {
					other, _ := newShard(t, server.Client().Shards(), 2, durable.Limits{})
					other.Open(anEpoch + 2)
					tenureOf(t, other)
				}
				client := server.Client()
				client.Cut(tt.cut)
				s, _ := newShard(t, client.Shards(), 1, durable.Limits{})
				s.Open(anEpoch + 1)
				time.Sleep(stuckAfter / 2)
				if st, ok := s.Stuck(time.Now()); ok {
					t.Errorf("reported too soon: %+v", st)
				}
				time.Sleep(stuckAfter)
				st, ok := s.Stuck(time.Now())
				if !ok || st.For < stuckAfter {
					t.Fatalf("%+v, %v: want that it is reported", st, ok)
				}
				for _, want := range tt.want {
					if !strings.Contains(st.Why, want) {
						t.Errorf("%q: want %q in it", st.Why, want)
					}
				}
				client.Cut(false)
				s.Open(anEpoch + 3)
				tenureOf(t, s)
				if st, ok := s.Stuck(time.Now().Add(time.Hour)); ok {
					t.Errorf("the shard is open but reported: %+v", st)
				}
				s.Close()
				client.Cut(true)
				s.Open(anEpoch + 4)
				time.Sleep(2 * stuckAfter)
				if st, ok := s.Stuck(time.Now()); !ok {
					t.Errorf("%+v: want that it is reported again", st)
				}
				s.Close()
				if st, ok := s.Stuck(time.Now().Add(time.Hour)); ok {
					t.Errorf("the shard was given up but is reported: %+v", st)
				}
			})
		})
	}
}
