package natsstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Config configures a store. The zero value works.
type Config struct {
	// Name is the prefix of the names of streams and subjects: 1 to 32 of A-Z a-z 0-9 _ -, but not
	// "sh", the prefix of the subjects of clusters. Clusters that share servers must have different
	// names. Default "shardgen".
	Name string
	// Replicas is the number of servers with a copy of a stream that the store creates: 1 to
	// 5. Default 1; with 3, the store survives the loss of one server. Existing streams keep their
	// number.
	Replicas int
	// Partitions is the number of pairs of streams that the store creates for a type: 1 to 64.
	// Default 4. A type that already has streams keeps its number.
	Partitions int
	// NoCreate makes a missing stream an error.
	NoCreate bool
	// Domain is the JetStream domain of the store: 1 to 32 of A-Z a-z 0-9 _ -. A leaf node with its
	// own JetStream must name the domain of its hub; otherwise it would use a store of its own
	// beside the cluster's. Default "": the domain of the server.
	Domain string
	// Timeout bounds the wait for each answer of the server; the context of a call may bound it
	// further. Default 5s, minimum 100ms.
	Timeout time.Duration
	// ConnectOptions are options of nats.go, such as TLS, credentials and a name. They cannot
	// change what the store relies on: it buffers nothing while disconnected, reconnects for ever,
	// and has its own handlers for errors and disconnects.
	ConnectOptions []nats.Option
	// Logger logs when Open has to wait for a server. Default slog.Default().
	Logger *slog.Logger
}

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
	if c.Name == "sh" { // its streams would store members' messages, and hide that nobody listens
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
