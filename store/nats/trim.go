package natsstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/store"
)

// trimPause is the least time between trims of a stream. Trims are limited because every shard
// advances its Since often, and each trim makes the server read heads and change the stream's first
// block.
const trimPause = time.Second

// trims has the state of trimming. The zero value is ready, and it is safe for concurrent use.
type trims struct {
	mu   sync.Mutex
	next map[string]*trim // by stream
}

// checkPause is the least time between checks of a stream's settings.
const checkPause = time.Minute

type trim struct {
	waits   bool // a caller waits until the stream may be trimmed
	at      time.Time
	checked time.Time // when the settings were looked at last
}

// checks reports whether the caller must check the stream's settings. The caller has called wait.
func (t *trims) checks(stream string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, now := t.next[stream], time.Now()
	due := now.Sub(n.checked) >= checkPause
	if due {
		n.checked = now
	}
	return due
}

// wait waits until the caller may trim the stream. It returns false at once if another caller is
// already waiting, because that other caller will read the heads of all shards. If the other caller
// reads an old head, a later trim removes the rest.
func (t *trims) wait(ctx context.Context, stream string) (bool, error) {
	t.mu.Lock()
	n := t.next[stream]
	if n == nil {
		n = &trim{}
		if t.next == nil {
			t.next = map[string]*trim{}
		}
		t.next[stream] = n
	}
	left := time.Until(n.at)
	if n.waits {
		t.mu.Unlock()
		return false, nil
	}
	n.waits = true
	t.mu.Unlock()
	due := left <= 0 || pause(ctx, left)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.waits = false; !due {
		return false, ctx.Err()
	}
	n.at = time.Now().Add(trimPause)
	return true, nil
}

// Trim implements [store.Logs]. It removes the appends at the beginning of the stream that no head
// needs. It may first wait for a second. Once a minute it checks the settings of the shard's
// streams, and fails if changed settings could make the streams lose messages.
//
// The heads are read at the revision of h or a later one. So if the result lacks a head, that head
// was written after the heads in the result, and its log begins after their Since.
func (s *shards) Trim(ctx context.Context, sh store.Shard, h store.Head) error {
	at, _, err := s.place(ctx, sh)
	if err != nil {
		return fail(opTrim, sh.String(), err)
	}
	if now, err := s.trims.wait(ctx, at.logs); !now {
		return fail(opTrim, sh.String(), err)
	}
	if s.trims.checks(at.logs) {
		for _, stream := range []string{at.records, at.logs} {
			_, there, err := s.info(ctx, stream)
			if err == nil && !there {
				err = fmt.Errorf("%w: %w", store.ErrUnavailable, missing(stream))
			}
			if err != nil {
				return fail(opTrim, sh.String(), err)
			}
		}
	}
	below, err := s.lowest(ctx, at, h, at.heads)
	if errors.Is(err, errTooMany) {
		below, err = s.lowestOfMany(ctx, at, h)
	}
	if err != nil || below == store.Start {
		return fail(opTrim, sh.String(), err)
	}
	var purged struct{}
	err = s.call(ctx, "STREAM.PURGE."+at.logs, struct {
		Seq uint64 `json:"seq"`
	}{uint64(below)}, &purged)
	if err != nil {
		err = repeatableError(err, at.logs) // Trim is only a hint, so it may be repeated
	}
	return fail(opTrim, sh.String(), err)
}

// lowest returns the lowest Since of the heads with the given subjects. One of them is h, or has
// replaced h.
func (s *shards) lowest(ctx context.Context, at place, h store.Head, subjects ...string) (below store.Position, err error) {
	err = s.again(ctx, func(ctx context.Context) (bool, error) {
		p, err := s.page(ctx, at.records, getRequest{MultiLast: subjects})
		if err != nil {
			return false, err
		}
		if p.more || p.upTo < uint64(h.Revision) {
			return false, s.behind(h.Revision)
		}
		below = h.Since
		for i, m := range p.messages {
			if since := m.head().Since; i == 0 || since < below {
				below = since
			}
		}
		return true, nil
	})
	return below, err
}

// headsAtOnce is how many heads one request asks for; the server's limit is 1,024.
const headsAtOnce = 500

// lowestOfMany is like lowest, for more heads than fit into one answer.
func (s *shards) lowestOfMany(ctx context.Context, at place, h store.Head) (store.Position, error) {
	for first := 0; first < store.MaxShards; first += headsAtOnce {
		subjects := []string{at.head} // this head exists, so the answer has the replica's last sequence
		for i := first; i < min(first+headsAtOnce, store.MaxShards); i++ {
			if subject := at.headOf(i); subject != at.head {
				subjects = append(subjects, subject)
			}
		}
		below, err := s.lowest(ctx, at, h, subjects...)
		if err != nil {
			return store.Start, err
		}
		h.Since = min(h.Since, below)
	}
	return h.Since, nil
}
