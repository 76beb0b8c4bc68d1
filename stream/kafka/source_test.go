package kafkastream_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/shardgen/shardgen/stream/conformance"
	kafkastream "github.com/shardgen/shardgen/stream/kafka"
)

const topic = "payments"

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// start starts an imitation of Kafka with a topic of 2 partitions.
func start(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(2, topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func client(t *testing.T, c *kfake.Cluster) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func open(t *testing.T, c *kfake.Cluster) *kafkastream.Source {
	t.Helper()
	s, err := kafkastream.Open(within(t), topic, kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func publish(t *testing.T, c *kfake.Cluster, records ...*kgo.Record) {
	t.Helper()
	if err := client(t, c).ProduceSync(within(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// remake deletes the topic and makes it again.
func remake(t *testing.T, c *kfake.Cluster) {
	t.Helper()
	gone := kmsg.NewDeleteTopicsRequestTopic()
	gone.Topic = kmsg.StringPtr(topic)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames, remove.Topics, remove.TimeoutMillis = []string{topic}, append(remove.Topics, gone), 5000
	again := kmsg.NewCreateTopicsRequestTopic()
	again.Topic, again.NumPartitions, again.ReplicationFactor = topic, 2, 1
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics, create.TimeoutMillis = append(create.Topics, again), 5000
	cl := client(t, c)
	removed, err := remove.RequestWith(within(t), cl)
	if err == nil {
		err = kerr.ErrorForCode(removed.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	created, err := create.RequestWith(within(t), cl)
	if err == nil {
		err = kerr.ErrorForCode(created.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		dir := t.TempDir()
		c := start(t, kfake.DataDir(dir))
		return conformance.Harness{
			Source: open(t, c),
			Publish: func(t *testing.T, partition int, data ...string) {
				t.Helper()
				var records []*kgo.Record
				for _, d := range data {
					records = append(records, &kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte(d)})
				}
				publish(t, c, records...)
			},
			Delete: func(t *testing.T, partition int, to uint64) {
				t.Helper()
				one := kmsg.NewDeleteRecordsRequestTopicPartition()
				one.Partition, one.Offset = int32(partition), int64(to)
				about := kmsg.NewDeleteRecordsRequestTopic()
				about.Topic, about.Partitions = topic, append(about.Partitions, one)
				request := kmsg.NewPtrDeleteRecordsRequest()
				request.Topics, request.TimeoutMillis = append(request.Topics, about), 5000
				answer, err := request.RequestWith(within(t), client(t, c))
				if err == nil {
					err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			Remake: func(t *testing.T) { remake(t, c) },
			Restart: func(t *testing.T) {
				t.Helper()
				port := portOf(t, c)
				c.Close()
				var err error
				c, err = kfake.NewCluster(kfake.DataDir(dir), kfake.NumBrokers(1), kfake.Ports(port))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
			},
		}
	})
}

// TestRecord: a message has the record's key and headers, and records of aborted transactions are not
// read.
func TestRecord(t *testing.T) {
	c := start(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for value, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		err := cl.BeginTransaction()
		if err == nil {
			err = cl.ProduceSync(within(t), &kgo.Record{
				Topic: topic, Key: []byte("ann"), Value: []byte{byte(value)}, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}},
			}).FirstErr()
		}
		if err == nil {
			err = cl.EndTransaction(within(t), end)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m, err := open(t, c).Open(within(t), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	all, err := m.Next(within(t), 10)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v, %v, want one message", all, err)
	}
	one := all[0]
	if kafkastream.Key(one) != "ann" || one.Subject != topic || one.Data[0] != 1 || one.Position != 3 || strings.Join(one.Header["a"], " ") != "1 2" {
		t.Fatalf("got %+v, want the committed record with its key and headers", one)
	}
}

// TestRemadeBeforeReading: a reader that reaches the brokers only after the topic was made again reads
// nothing.
func TestRemadeBeforeReading(t *testing.T) {
	c := start(t)
	publish(t, c, &kgo.Record{Topic: topic, Value: []byte("1")})
	var dial net.Dialer
	var wait atomic.Pointer[chan struct{}]
	s, err := kafkastream.Open(within(t), topic, kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if held := wait.Load(); held != nil {
			<-*held
		}
		return dial.DialContext(ctx, network, address)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	m, err := s.Open(within(t), 0, 0) // the source has its connections then
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	held := make(chan struct{})
	wait.Store(&held)
	if m, err = s.Open(within(t), 0, 0); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	remake(t, c)
	publish(t, c, &kgo.Record{Topic: topic, Value: []byte("2")})
	close(held)
	if all, err := m.Next(within(t), 10); err == nil {
		t.Fatalf("got %+v of the new topic", all)
	}
}

// TestOutOfRange: a reader whose next messages were deleted fails, and does not go on at another
// offset.
func TestOutOfRange(t *testing.T) {
	c := start(t)
	publish(t, c, &kgo.Record{Topic: topic, Value: []byte("1")}, &kgo.Record{Topic: topic, Value: []byte("2")})
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.FetchRequest)
		if len(request.Topics) == 0 {
			c.KeepControl()
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		one := kmsg.NewFetchResponseTopicPartition()
		one.ErrorCode = kerr.OffsetOutOfRange.Code
		about := kmsg.NewFetchResponseTopic()
		about.Topic, about.TopicID, about.Partitions = request.Topics[0].Topic, request.Topics[0].TopicID, append(about.Partitions, one)
		answer.Topics = append(answer.Topics, about)
		return answer, nil, true
	})
	m, err := open(t, c).Open(within(t), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if all, err := m.Next(within(t), 10); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Fatalf("got %+v, %v, want that the offset is out of range", all, err)
	}
}

// TestRefused: topics that cannot be read are refused, and a closed source reads nothing.
func TestRefused(t *testing.T) {
	c := start(t)
	if _, err := kafkastream.Open(within(t), "other", kgo.SeedBrokers(c.ListenAddrs()...)); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("got %v, want that there is no such topic", err)
	}
	old := start(t, kfake.MaxVersions(kversion.V2_7_0()))
	if _, err := kafkastream.Open(within(t), topic, kgo.SeedBrokers(old.ListenAddrs()...)); err == nil || !strings.Contains(err.Error(), "no ids") {
		t.Errorf("got %v, want that topics have no ids", err)
	}
	s := open(t, c)
	m, err := s.Open(within(t), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if _, err := m.Next(within(t), 1); err == nil {
		t.Error("a closed source reads")
	}
	m.Close()
	if _, err := s.Open(within(t), 0, 0); err == nil {
		t.Error("a closed source opens a partition")
	}
}

func portOf(t *testing.T, c *kfake.Cluster) int {
	t.Helper()
	_, text, err := net.SplitHostPort(c.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
