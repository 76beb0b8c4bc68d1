package shard

import "github.com/shardgen/shardgen/internal/bounded"

// newer skips what only a later release can read.
func (c *control) newer(err error) {
	c.plane.counters.add(messageNewer)
	c.node.log.Debug("a later release's message skipped", "err", bounded.Error(err))
}

func (c *control) foreign(bytes int, err error) {
	if n, tell := c.plane.counters.addSeldom(frameForeign); tell {
		c.node.log.Warn("foreign bytes refused", "lane", "control", "bytes", bytes, "err", bounded.Error(err), "count", n)
	}
}
