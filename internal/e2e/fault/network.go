package fault

import (
	"slices"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/netns"
)

// cuts makes the network of a run drop packets between its hosts.
type cuts struct {
	*report
	cluster *cluster.Cluster
}

// hosts are where these servers, nodes and callers run.
func (c *cuts) hosts(names ...string) (hosts []*netns.Host, err error) {
	for _, name := range names {
		h, err := c.cluster.Host(name)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// everywhere is all hosts of the run but these.
func (c *cuts) everywhere(except ...*netns.Host) (hosts []*netns.Host) {
	for _, h := range c.cluster.Network().Hosts() {
		if !slices.Contains(except, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// heal ends all cuts and notes how many packets they dropped.
func (c *cuts) heal() error {
	network := c.cluster.Network()
	dropped, err := network.Dropped()
	if err != nil {
		return err
	}
	c.Note("%d packets were dropped", dropped)
	return network.Drop()
}
