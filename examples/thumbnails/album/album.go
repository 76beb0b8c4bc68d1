// Package album has a pool that makes pictures smaller, and durable albums that use it.
package album

import (
	"context"
	"errors"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// Resizer makes pictures smaller. Each instance would hold a model that is slow to load, so there are
// few of them, and each makes one picture at a time.
//
//shard:pool shards=64
type Resizer struct {
	Takes time.Duration `shard:"-"` // for a picture
}

// Resize returns a picture of half the width and half the height. width is picture's, in points of
// one byte each.
//
//shard:read
func (r *Resizer) Resize(ctx context.Context, picture []byte, width int) ([]byte, error) {
	if width < 2 || len(picture)%width != 0 {
		return nil, ErrFormat
	}
	var small []byte
	for y := 0; (y+2)*width <= len(picture); y += 2 {
		for x := 0; x+2 <= width; x += 2 {
			at := y*width + x
			sum := int(picture[at]) + int(picture[at+1]) + int(picture[at+width]) + int(picture[at+width+1])
			small = append(small, byte(sum/4))
		}
	}
	select {
	case <-time.After(r.Takes):
		return small, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ErrFormat means that the picture does not have the given width.
//
//shard:error
var ErrFormat = errors.New("the picture does not have the given width")

// Album keeps the thumbnails of pictures by name.
//
//shard:entity durable
type Album struct {
	Thumbnails map[string][]byte `shard:"state"`

	Resizer ResizerAPI `shard:"-"` // any instance of the pool
}

// Add adds the thumbnail of a picture, and returns how many there are.
func (a *Album) Add(ctx context.Context, name string, picture []byte, width int) (int, error) {
	small, err := a.Resizer.Resize(ctx, picture, width)
	if err != nil {
		return 0, err
	}
	if a.Thumbnails == nil {
		a.Thumbnails = map[string][]byte{}
	}
	a.Thumbnails[name] = small
	return len(a.Thumbnails), nil
}

// Count returns how many thumbnails there are.
//
//shard:read
func (a *Album) Count(context.Context) (int, error) { return len(a.Thumbnails), nil }

// Host lets a node host albums, and resizers: 2 to 12 in the cluster, at most two per node. One
// node may fail without loss of the last resizer. takes is the time for one picture.
func Host(n *shard.Node, takes time.Duration) {
	pool := NewResizerClient(n).API()
	_ = HostResizer(n, func() *Resizer { return &Resizer{Takes: takes} },
		shard.PoolSize(2, 12), shard.PerNode(2), shard.Survive(func(nodes int) int { return min(1, nodes-1) }))
	_ = HostAlbum(n, func() *Album { return &Album{Resizer: pool} }) // Start returns these errors
}
