// Package memorystream keeps streams in memory, for tests of programs that call shard.Consume.
package memorystream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/stream"
)

// A Source is a stream in memory. It is safe for concurrent use.
type Source struct {
	mu         sync.Mutex
	partitions [][]stream.Message
	deleted    []uint64      // messages deleted from the beginning of each partition
	made       int           // how often the stream was made
	cut        bool          // the stream cannot be read
	changed    chan struct{} // closed at the next change; nil: no reader waits
}

var _ stream.Source = (*Source)(nil)

// New returns an empty stream with the given number of partitions.
func New(partitions int) *Source {
	return &Source{partitions: make([][]stream.Message, partitions), deleted: make([]uint64, partitions)}
}

func (s *Source) changedLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Publish appends a message to a partition and returns its position.
func (s *Source) Publish(partition int, subject string, data []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := &s.partitions[partition]
	position := s.deleted[partition] + uint64(len(*all)) + 1
	*all = append(*all, stream.Message{Position: position, Subject: subject, Data: slices.Clone(data), Time: time.Now()})
	s.changedLocked()
	return position
}

// Delete deletes the first n messages of a partition.
func (s *Source) Delete(partition, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partitions[partition] = s.partitions[partition][n:]
	s.deleted[partition] += uint64(n)
}

// Remake deletes the stream and makes it again, without messages.
func (s *Source) Remake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.partitions)
	clear(s.deleted)
	s.made++
	s.changedLocked()
}

// Truncate deletes the last n messages of a partition, like a restore of an older copy.
func (s *Source) Truncate(partition, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.partitions[partition]
	s.partitions[partition] = all[: len(all)-n : len(all)-n]
	s.changedLocked()
}

// Cut makes the stream unreachable if on is true, and reachable again if on is false.
func (s *Source) Cut(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = on
	s.changedLocked()
}

var errCut = errors.New("the stream cannot be reached")

// Partitions implements [stream.Source].
func (s *Source) Partitions() int { return len(s.partitions) }

// Identity implements [stream.Source].
func (s *Source) Identity(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return "", errCut
	}
	return fmt.Sprint("memory@", s.made), nil
}

// End implements [stream.Ended].
func (s *Source) End(_ context.Context, partition int) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return 0, errCut
	}
	return s.deleted[partition] + uint64(len(s.partitions[partition])), nil
}

// Open implements [stream.Source].
func (s *Source) Open(_ context.Context, partition int, after uint64) (stream.Messages, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch last := s.deleted[partition] + uint64(len(s.partitions[partition])); {
	case s.cut:
		return nil, errCut
	case after > last:
		return nil, fmt.Errorf("the last message is %d: %w", last, stream.ErrRewound)
	}
	return &messages{s, partition, s.made, after, 0}, nil
}

type messages struct {
	source    *Source
	partition int
	made      int
	last      uint64
	missed    uint64
}

// Next implements [stream.Messages].
func (m *messages) Next(ctx context.Context, most int) ([]stream.Message, error) {
	for {
		all, changed, err := m.source.after(m, most)
		if err != nil || len(all) > 0 {
			return all, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Source) after(m *messages, most int) ([]stream.Message, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut || s.made != m.made {
		return nil, nil, errCut
	}
	if first := s.deleted[m.partition]; m.last < first {
		m.missed += first - m.last
		m.last = first
	}
	all := s.partitions[m.partition]
	if next := int(m.last - s.deleted[m.partition]); next < len(all) {
		all = slices.Clone(all[next:min(next+most, len(all))])
		m.last = all[len(all)-1].Position
		return all, nil, nil
	}
	if s.changed == nil { // made here and not by New, which tests may call outside their synctest bubble
		s.changed = make(chan struct{})
	}
	return nil, s.changed, nil
}

// Missed implements [stream.Messages].
func (m *messages) Missed() uint64 { return m.missed }

// Close implements [stream.Messages].
func (*messages) Close() {}
