package peers

import (
	"sync"

	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/transport"
)

// maxDeparted bounds the recorded peers. Older ones are not needed: a peer is looked up only soon
// after a shard has left it.
const maxDeparted = shardhost.MaxDeparted

// departed records the peers that said goodbye on a lane or were removed. It is safe for concurrent
// use.
type departed struct {
	mu   sync.Mutex
	list []departure // the latest is last
}

type departure struct {
	address transport.Address
	lane    int // -1: all lanes
}

func (s *departed) add(a transport.Address, lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, departure{a, lane})
	s.list = s.list[max(0, len(s.list)-maxDeparted):]
}

// on returns the departed peers of the lane, the latest last.
func (s *departed) on(lane int) (all []transport.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		if o.lane < 0 || o.lane == lane {
			all = append(all, o.address)
		}
	}
	return all
}
