// Package natsstream reads JetStream streams as sources of shard.Consume.
package natsstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/stream"
)

// Config configures a source.
type Config struct {
	// Stream is the name of the stream. Its retention must be by limits: other retentions delete
	// messages when consumers have acknowledged them, perhaps before the source has read them.
	Stream string
	// Subjects has one subject for each partition: the partition has the messages that match the
	// subject, which may have wildcards. The number and order of Subjects must never change.
	// Default: one partition with all messages. To spread messages by a token of their subjects,
	// make a second stream whose source is the first, with a subject transform such as "orders.*"
	// to "part.{{partition(4,1)}}", and read its subjects "part.0" to "part.3". A wildcard that
	// matches thousands of subjects is slow.
	Subjects []string
	// Domain is the JetStream domain of the stream. Default "": the domain of the server.
	Domain string
	// ConnectOptions are options of nats.go, such as TLS, credentials and a name. The source sets
	// its own handlers for errors and disconnects.
	ConnectOptions []nats.Option
}

const (
	reconnectWait = 100 * time.Millisecond
	pingInterval  = time.Second
	maxPingsOut   = 3

	pullMessages = 2048             // of one request
	pullBytes    = 8 << 20          // of one request; larger if one message may be
	pullExpires  = 30 * time.Second // after this time a request is repeated
	heartbeat    = time.Second      // between signs of life of an idle consumer
	silence      = 4 * time.Second  // after which a consumer counts as lost
	unusedFor    = 30 * time.Second // after which the server deletes a consumer that nobody reads
)

// A Source reads a JetStream stream. Each reader of a partition has a consumer without
// acknowledgements, in the server's memory, which is deleted when the reader is closed. A Source is
// safe for concurrent use.
type Source struct {
	cfg Config
	api string
	nc  *nats.Conn

	mu    sync.Mutex
	open  map[*messages]bool
	calls map[*call]bool // running calls
}

// A call is a request to JetStream's API.
type call struct {
	subject string
	end     context.CancelCauseFunc
}

var _ stream.Source = (*Source)(nil)

// Open connects to a server of url, which may have several URLs separated by commas. It fails if no
// server answers, or if the stream does not exist or cannot be a source.
func Open(ctx context.Context, url string, cfg Config) (*Source, error) {
	s := &Source{cfg: cfg, api: "$JS.API.", open: map[*messages]bool{}, calls: map[*call]bool{}}
	if cfg.Domain != "" {
		s.api = "$JS." + cfg.Domain + ".API."
	}
	if cfg.Stream == "" || strings.ContainsAny(cfg.Stream, ".*> \t") {
		return nil, fmt.Errorf("stream source: Config.Stream is %q: want the name of a stream", cfg.Stream)
	}
	options := append([]nats.Option{nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPingsOut), nats.ReconnectWait(reconnectWait)}, cfg.ConnectOptions...)
	options = append(options,
		nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { s.fail(fmt.Errorf("%w: %w", errLost, err)) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { s.failOne(sub, err) }))
	var err error
	if s.nc, err = nats.Connect(url, options...); err != nil {
		return nil, fmt.Errorf("stream source: connect to NATS: %w (is a server running there?)", err)
	}
	if _, err := s.info(ctx); err != nil {
		s.nc.Close()
		return nil, err
	}
	return s, nil
}

var errLost = errors.New("the connection to the NATS server was lost (the client reconnects)")

// Close ends the connection. It may be called twice.
func (s *Source) Close() {
	s.nc.Close()
	s.fail(nats.ErrConnectionClosed)
}

// Partitions implements [stream.Source].
func (s *Source) Partitions() int { return max(len(s.cfg.Subjects), 1) }

// Identity implements [stream.Source] by the stream's name and time of creation.
func (s *Source) Identity(ctx context.Context) (string, error) {
	info, err := s.info(ctx)
	if err != nil {
		return "", err
	}
	return s.cfg.Stream + "@" + strconv.FormatInt(info.Created.UnixNano(), 36), nil
}

// End implements [stream.Ended]. It is not supported with Config.Subjects: JetStream says only where the
// whole stream ends.
func (s *Source) End(ctx context.Context, _ int) (uint64, error) {
	if len(s.cfg.Subjects) > 0 {
		return 0, fmt.Errorf("stream %s: JetStream does not report the last message of a subject: %w", s.cfg.Stream, errors.ErrUnsupported)
	}
	info, err := s.info(ctx)
	return info.State.LastSeq, err
}

type streamInfo struct {
	Config struct {
		Retention string `json:"retention"`
	} `json:"config"`
	Created time.Time `json:"created"`
	State   struct {
		FirstSeq uint64 `json:"first_seq"`
		LastSeq  uint64 `json:"last_seq"`
	} `json:"state"`
}

func (s *Source) info(ctx context.Context) (i streamInfo, err error) {
	if err := s.call(ctx, "STREAM.INFO."+s.cfg.Stream, nil, &i); err != nil {
		return i, err
	}
	if i.Config.Retention != "limits" {
		return i, fmt.Errorf("stream %s: its retention is %s: want limits, because other retentions delete messages when consumers acknowledge them (copy it into a stream with limits)", s.cfg.Stream, i.Config.Retention)
	}
	return i, nil
}

// call makes a request to JetStream's API.
func (s *Source) call(ctx context.Context, subject string, request, answer any) error {
	fail := func(err error) error {
		return fmt.Errorf("stream %s: %w", s.cfg.Stream, err)
	}
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return fail(err)
		}
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &call{s.api + subject, end}
	s.mu.Lock()
	s.calls[c] = true
	s.mu.Unlock()
	m, err := s.nc.RequestWithContext(ctx, c.subject, body)
	s.mu.Lock()
	delete(s.calls, c)
	s.mu.Unlock()
	if err != nil {
		return fail(cmp.Or(context.Cause(ctx), err))
	}
	var refused struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &refused); err != nil {
		return fail(err)
	}
	if refused.Error != nil {
		return fail(errors.New(refused.Error.Description))
	}
	if answer != nil {
		if err := json.Unmarshal(m.Data, answer); err != nil {
			return fail(err)
		}
	}
	return nil
}

type consumerConfig struct {
	Name      string        `json:"name"`
	Deliver   string        `json:"deliver_policy"`
	Start     uint64        `json:"opt_start_seq"`
	Ack       string        `json:"ack_policy"`
	Filter    string        `json:"filter_subject,omitempty"`
	Replay    string        `json:"replay_policy"`
	Unused    time.Duration `json:"inactive_threshold"`
	Replicas  int           `json:"num_replicas"`
	InMemory  bool          `json:"mem_storage"`
	NoHeaders bool          `json:"headers_only,omitempty"`
}

type consumerRequest struct {
	Stream string         `json:"stream_name"`
	Config consumerConfig `json:"config"`
}

// Open implements [stream.Source].
func (s *Source) Open(ctx context.Context, partition int, after uint64) (stream.Messages, error) {
	info, err := s.info(ctx)
	if err != nil {
		return nil, err
	}
	if last := max(info.State.LastSeq, info.State.FirstSeq-min(info.State.FirstSeq, 1)); last < after {
		return nil, fmt.Errorf("stream %s: its last message is %d: %w", s.cfg.Stream, last, stream.ErrRewound)
	}
	m := &messages{source: s, consumer: nats.NewInbox()[len("_INBOX."):], last: after}
	if first := info.State.FirstSeq; first > after+1 {
		m.missed, m.last = first-after-1, first-1
	}
	c := consumerConfig{
		Name: m.consumer, Deliver: "by_start_sequence", Start: after + 1, Ack: "none", Replay: "instant",
		Unused: unusedFor, Replicas: 1, InMemory: true,
	}
	subject := "CONSUMER.CREATE." + s.cfg.Stream + "." + m.consumer
	if len(s.cfg.Subjects) > 0 {
		c.Filter = s.cfg.Subjects[partition]
		subject += "." + c.Filter
	}
	if m.sub, err = s.nc.SubscribeSync(s.nc.NewInbox()); err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.cfg.Stream, err)
	}
	_ = m.sub.SetPendingLimits(-1, -1) // requests bound the pending messages
	s.mu.Lock()
	s.open[m] = true
	s.mu.Unlock()
	if err := s.call(ctx, subject, consumerRequest{s.cfg.Stream, c}, nil); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// fail makes all readers fail with the error why.
func (s *Source) fail(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.open {
		m.failLocked(why)
	}
}

// failOne ends the readers and calls that an error of the connection concerns, such as a missing
// right.
func (s *Source) failOne(sub *nats.Subscription, why error) {
	denied := ""
	if errors.Is(why, nats.ErrPermissionViolation) { // it names the subject
		denied = why.Error()
		why = fmt.Errorf("%w (grant it: shardctl permissions source -consume %s prints the rights)", why, s.cfg.Stream)
	}
	answers := strings.Contains(denied, "Subscription to")
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.open {
		if m.sub == sub || answers || strings.Contains(denied, "."+m.consumer) {
			m.failLocked(why)
		}
	}
	for c := range s.calls {
		if answers || strings.Contains(denied, `"`+c.subject+`"`) {
			c.end(why)
		}
	}
}
