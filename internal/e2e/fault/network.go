package fault

import (
	"slices"

	"github.com/shardgen/shardgen/internal/e2e/netns"
)

// hosts are where these servers, nodes and callers run.
func (r *Run) hosts(names ...string) (hosts []*netns.Host, err error) {
	for _, name := range names {
		h, err := r.Cluster.Host(name)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// everywhere is all hosts of the run but these.
func (r *Run) everywhere(except ...*netns.Host) (hosts []*netns.Host) {
	for _, h := range r.Cluster.Network().Hosts() {
		if !slices.Contains(except, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// heal ends all cuts and notes how many packets they dropped.
func (r *Run) heal() error {
	network := r.Cluster.Network()
	dropped, err := network.Dropped()
	if err != nil {
		return err
	}
	r.Note("%d packets were dropped", dropped)
	return network.Drop()
}
