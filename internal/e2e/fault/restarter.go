package fault

import (
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// A restarter starts nodes again that have ended, under their names, as an
// orchestrator does.
type restarter struct {
	cluster  *cluster.Cluster
	restarts map[string]int
	stop     chan struct{}
	wg       sync.WaitGroup

	mu  sync.Mutex
	now map[string]*cluster.Node
	err error
}

// keepUp starts these nodes again as soon as they end, until the returned restarter's end is
// called.
func keepUp(c *cluster.Cluster, nodes ...*cluster.Node) *restarter {
	k := &restarter{cluster: c, stop: make(chan struct{}), restarts: make(map[string]int), now: make(map[string]*cluster.Node)}
	for _, n := range nodes {
		k.now[n.Name()] = n
		k.wg.Go(func() { k.watch(n) })
	}
	return k
}

// restartAfter is how soon an ended process is started again.
const restartAfter = 500 * time.Millisecond

func (k *restarter) watch(n *cluster.Node) {
	timer := time.NewTimer(restartAfter)
	defer timer.Stop()
	for {
		select {
		case <-n.Done():
		case <-k.stop:
			return
		}
		timer.Reset(restartAfter)
		select {
		case <-timer.C:
		case <-k.stop:
			return
		}
		again, err := k.cluster.Launch(n.Name())
		k.mu.Lock()
		if err != nil {
			k.err = err
			k.mu.Unlock()
			return
		}
		k.restarts[n.Name()]++
		k.now[n.Name()] = again
		k.mu.Unlock()
		n = again
	}
}

// end stops keeping nodes, and returns an error if one could not be started. It
// may be called twice.
func (k *restarter) end() error {
	k.mu.Lock()
	select {
	case <-k.stop:
	default:
		close(k.stop)
	}
	k.mu.Unlock()
	k.wg.Wait()
	return k.err
}

// node is the process that has the name now.
func (k *restarter) node(name string) *cluster.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now[name]
}

// total is how many processes were started again so far.
func (k *restarter) total() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, restarts := range k.restarts {
		n += restarts
	}
	return n
}
