// Package kafkastream reads topics of Kafka as sources of shard.Consume. It is a module of its own, so
// that only its users depend on a client of Kafka.
//
//	source, err := kafkastream.Open(ctx, "payments", kgo.SeedBrokers("127.0.0.1:9092"))
//
// A message's position is its offset + 1. Its key is in a header, see [Key]. Nothing is committed
// to Kafka: the position is in shard.Config.Store. Aborted transactions are not read.
//
// The package is tested against kfake, franz-go's imitation of Kafka, and not against Kafka itself.
package kafkastream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/shardgen/shardgen/stream"
)

// KeyHeader names the message header that has the key of the Kafka record, if the record has a key.
// The key then replaces a header of this name in the record.
const KeyHeader = "Kafka-Key"

// Key returns the key of a message's record, or "" if the record has none.
func Key(m stream.Message) string {
	if all := m.Header[KeyHeader]; len(all) > 0 {
		return all[0]
	}
	return ""
}

// A Source reads a topic. Each reader of a partition has its own client. A Source is safe for
// concurrent use.
type Source struct {
	topic      string
	partitions int
	options    []kgo.Opt
	client     *kgo.Client // for requests about the topic

	mu   sync.Mutex
	open map[*messages]bool // nil: the source is closed
}

var _ stream.Source = (*Source)(nil)

// Open opens a topic, with options of franz-go such as [kgo.SeedBrokers], [kgo.DialTLS] and
// [kgo.SASL]. The options must not choose what is consumed. Open fails if no broker answers before
// ctx ends, if the topic does not exist, or if the brokers give topics no ids. Kafka before 2.8
// gives none; then a topic that was deleted and created again would look like the former one. The
// Source has the partitions that the topic has now. Partitions that are added later are not read
// until all members have opened the topic again.
func Open(ctx context.Context, topic string, options ...kgo.Opt) (*Source, error) {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	s := &Source{topic: topic, options: options, client: client, open: map[*messages]bool{}}
	about, err := s.about(ctx)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.partitions = len(about.Partitions)
	return s, nil
}

// Close ends reading and closes all connections. It may be called twice.
func (s *Source) Close() {
	s.mu.Lock()
	all := s.open
	s.open = nil
	s.mu.Unlock()
	for m := range all {
		m.client.Close()
	}
	s.client.Close()
}

// Partitions implements [stream.Source].
func (s *Source) Partitions() int { return s.partitions }

// Identity implements [stream.Source] by the topic's name and id.
func (s *Source) Identity(ctx context.Context) (string, error) {
	about, err := s.about(ctx)
	if err != nil {
		return "", err
	}
	return s.topic + "@" + base64.RawURLEncoding.EncodeToString(about.TopicID[:]), nil
}

func (s *Source) fail(err error) error { return fmt.Errorf("topic %s: %w", s.topic, err) }

var errNoID = errors.New("the broker gives topics no ids (use Kafka 2.8 or later)")

func (s *Source) about(ctx context.Context) (about kmsg.MetadataResponseTopic, err error) {
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(s.topic)
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, s.client)
	switch {
	case err != nil:
	case len(answer.Topics) != 1:
		err = fmt.Errorf("the broker describes %d topics: want only the requested one", len(answer.Topics))
	default:
		about = answer.Topics[0]
		if err = kerr.ErrorForCode(about.ErrorCode); err == nil && about.TopicID == [16]byte{} {
			err = errNoID
		}
	}
	if err != nil {
		err = s.fail(err)
	}
	return about, err
}

// Special times in a request for offsets: they stand for the first and the next offset.
const (
	firstOffset = -2
	nextOffset  = -1
)

func (s *Source) offset(ctx context.Context, partition int, which int64) (int64, error) {
	one := kmsg.NewListOffsetsRequestTopicPartition()
	one.Partition, one.Timestamp = int32(partition), which
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = s.topic, append(topic.Partitions, one)
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID, request.Topics = -1, append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, s.client)
	if err != nil {
		return 0, s.fail(err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return 0, s.fail(errors.New("the broker's answer does not contain the partition"))
	}
	found := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return 0, s.fail(err)
	}
	return found.Offset, nil
}

// End implements [stream.Ended].
func (s *Source) End(ctx context.Context, partition int) (uint64, error) {
	next, err := s.offset(ctx, partition, nextOffset)
	return uint64(max(0, next)), err
}

// Open implements [stream.Source].
func (s *Source) Open(ctx context.Context, partition int, after uint64) (stream.Messages, error) {
	identity, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	next, err := s.offset(ctx, partition, nextOffset)
	if err != nil {
		return nil, err
	}
	if uint64(next) < after {
		return nil, s.fail(fmt.Errorf("partition %d ends at position %d: %w", partition, next, stream.ErrRewound))
	}
	first, err := s.offset(ctx, partition, firstOffset)
	if err != nil {
		return nil, err
	}
	m := &messages{source: s, identity: identity}
	from := int64(after)
	if first > from {
		m.missed, from = uint64(first-from), first
	}
	m.client, err = kgo.NewClient(append(s.options[:len(s.options):len(s.options)],
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: {int32(partition): kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepRetryableFetchErrors())...)
	if err != nil {
		return nil, s.fail(err)
	}
	s.mu.Lock()
	closed := s.open == nil
	if !closed {
		s.open[m] = true
	}
	s.mu.Unlock()
	if closed {
		m.client.Close()
		return nil, s.fail(kgo.ErrClientClosed)
	}
	return m, nil
}

// messages reads one partition.
type messages struct {
	source   *Source
	client   *kgo.Client
	identity string // identity that the topic must have; "" after the check
	missed   uint64
}

// Next implements [stream.Messages].
func (m *messages) Next(ctx context.Context, most int) ([]stream.Message, error) {
	found := m.client.PollRecords(ctx, most)
	for _, f := range found.Errors() {
		return nil, m.source.fail(f.Err)
	}
	records := found.Records()
	if len(records) == 0 {
		return nil, m.source.fail(errors.Join(ctx.Err(), errEnded))
	}
	if m.identity != "" {
		// The client takes the topic's id from its first answer, and keeps it.
		now, err := m.source.Identity(ctx)
		if err != nil {
			return nil, err
		}
		if now != m.identity {
			return nil, m.source.fail(errRemade)
		}
		m.identity = ""
	}
	all := make([]stream.Message, len(records))
	for i, r := range records {
		all[i] = message(r)
	}
	return all, nil
}

var (
	errEnded  = errors.New("the reader has ended")
	errRemade = errors.New("the topic was deleted and made again")
)

func message(r *kgo.Record) stream.Message {
	m := stream.Message{Position: uint64(r.Offset) + 1, Subject: r.Topic, Data: r.Value, Time: r.Timestamp}
	if len(r.Headers) > 0 || r.Key != nil {
		m.Header = map[string][]string{}
	}
	for _, h := range r.Headers {
		m.Header[h.Key] = append(m.Header[h.Key], string(h.Value))
	}
	if r.Key != nil {
		m.Header[KeyHeader] = []string{string(r.Key)}
	}
	return m
}

// Missed implements [stream.Messages].
func (m *messages) Missed() uint64 { return m.missed }

// Close implements [stream.Messages].
func (m *messages) Close() {
	m.source.mu.Lock()
	delete(m.source.open, m)
	m.source.mu.Unlock()
	m.client.Close()
}
