package natsstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Config says where and how a store lies. The zero value works.
type Config struct {
	// Name begins the names of streams and subjects: 1 to 32 of A-Z a-z 0-9 _ -, and not
	// "sh", below which the subjects of clusters lie.
	// Clusters that share servers have different ones. Default "shardgen".
	Name string
	// Replicas is the number of servers with a copy of each created stream: 1 to 5. Default
	// 1; 3 outlives one server. Streams that are there keep theirs.
	Replicas int
	// Partitions is the number of pairs of streams that the store creates for a type: 1 to
	// 64. Default 4. A type that has its streams keeps its number.
	Partitions int
	// NoCreate has the absence of a stream be an error.
	NoCreate bool
	// Domain is the JetStream domain in which the store lies: 1 to 32 of A-Z a-z 0-9 _ -. A leaf node
	// with a JetStream of its own needs that of its hub, or it would keep a store beside the
	// cluster's. Default "": that of the server.
	Domain string
	// Timeout bounds the wait for each answer of the server, beside the context that
	// bounds the call. Default 5s, minimum 100ms.
	Timeout time.Duration
	// ConnectOptions go to nats.go: TLS, credentials, a name. The options that the store
	// relies on cannot be changed: no buffering while disconnected, reconnects for ever,
	// and its own handlers for errors and disconnects.
	ConnectOptions []nats.Option
	// Logger is told when Open has to wait for a server. Default slog.Default().
	Logger *slog.Logger
}

// Defaults of Config.
const (
	defaultName       = "shardgen"
	defaultPartitions = 4
	defaultTimeout    = 5 * time.Second
	minTimeout        = 100 * time.Millisecond
	maxName           = 32
	maxReplicas       = 5
	maxPartitions     = 64
)

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Partitions == 0 {
		c.Partitions = defaultPartitions
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Name == "" || len(c.Name) > maxName || escape(c.Name, plainName) != c.Name {
		errs = append(errs, fmt.Errorf("config: Name is %q: want 1 to %d of A-Z a-z 0-9 _ -", c.Name, maxName))
	}
	if c.Domain != "" && (len(c.Domain) > maxName || escape(c.Domain, plainName) != c.Domain) {
		errs = append(errs, fmt.Errorf("config: Domain is %q: want 1 to %d of A-Z a-z 0-9 _ -", c.Domain, maxName))
	}
	if c.Name == "sh" { // its streams would keep what members send, and hide that nobody listens
		errs = append(errs, errors.New(`config: Name is "sh": want another one, because the subjects of clusters begin with it`))
	}
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		errs = append(errs, fmt.Errorf("config: Replicas is %d: want 1 to %d", c.Replicas, maxReplicas))
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		errs = append(errs, fmt.Errorf("config: Partitions is %d: want 1 to %d", c.Partitions, maxPartitions))
	}
	if c.Timeout < minTimeout {
		errs = append(errs, fmt.Errorf("config: Timeout is %v: want at least %v", c.Timeout, minTimeout))
	}
	return errors.Join(errs...)
}
