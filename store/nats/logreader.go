package natsstore

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A logReader reads a part of a log, page by page.
type logReader struct {
	*reader
	place    place
	from, to store.Position
	found    []store.Append
	missed   int // how often the leader did not know the last position
}

// read reads until the position that ends it. Each page of one replica is whole: it
// is isolated from writes and purges there. A further page begins at the last append
// of the one before, so nothing was trimmed in between.
func (r *logReader) read(ctx context.Context) error {
	if r.to == store.Start || r.to == store.Any || r.from > r.to {
		return r.gone()
	}
	return r.again(ctx, r.next)
}

func (r *logReader) next(ctx context.Context) (done bool, err error) {
	for {
		begin := r.from
		if len(r.found) > 0 {
			begin = r.found[len(r.found)-1].Position
		}
		p, err := r.page(ctx, r.place.logs, getRequest{Seq: uint64(begin), NextFor: r.place.log, Batch: pageMessages, MaxBytes: pageBytes})
		if err != nil {
			return false, err
		}
		if begin != store.Start && (len(p.messages) == 0 || p.messages[0].seq != uint64(begin)) {
			return r.absent(ctx, begin)
		}
		before := len(r.found)
		for _, m := range p.messages {
			position := store.Position(m.seq)
			if len(r.found) > 0 && position == begin {
				continue
			}
			if position > r.to {
				return r.absent(ctx, r.to)
			}
			r.found = append(r.found, store.Append{Position: position, Data: m.data})
			if position == r.to {
				return true, nil
			}
		}
		if !p.more || len(r.found) == before {
			return r.absent(ctx, r.to)
		}
	}
}

// absent explains that a replica lacks a position: it lags, or there is no such append. A
// leader that has just been elected may lack it for a moment too.
func (r *logReader) absent(ctx context.Context, position store.Position) (done bool, err error) {
	m, err := r.leaderHas(ctx, r.place.logs, getRequest{Seq: uint64(position)})
	if err != nil {
		return false, err
	}
	if m != nil && m.subject != r.place.log {
		return true, r.gone()
	}
	if m == nil {
		if r.missed++; r.missed == 3 {
			return true, r.gone()
		}
		pause(ctx, 10*time.Millisecond)
	}
	return false, fmt.Errorf("%w: all answering replicas lag (try again)", store.ErrUnavailable)
}

func (r *logReader) gone() error {
	return fmt.Errorf("%w: stream %s lacks messages from %d to %d", store.ErrGone, r.place.logs, r.from, r.to)
}
