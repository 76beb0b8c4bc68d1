package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/runtime/admin"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// membersOf returns a cluster's members; none if no process of it answers.
func membersOf(ctx context.Context, o *storeOptions, cluster string) (admin.View, error) {
	v, err := askMembers(ctx, o, cluster)
	switch {
	case errors.Is(err, nats.ErrPermissionViolation): // a reader's rights alone are not enough
		err = fmt.Errorf("%w: shardctl permissions store -cluster %s -store %s -name %s prints all rights of shardctl store",
			err, cluster, o.store, cmp.Or(o.name, defaultName))
	case err != nil:
		err = fmt.Errorf("%w (stop these processes)", err)
	}
	return v, err
}

func askMembers(ctx context.Context, o *storeOptions, cluster string) (v admin.View, err error) {
	c, err := admin.Dial(ctx, admin.Options{
		Cluster: cluster, Name: o.name, Transport: natstransport.New(o.url, natstransport.ConnectOptions(o.connection.options()...)),
	})
	if err != nil {
		return v, err
	}
	defer func() { _ = c.Close() }() // everything was answered
	if v, err = c.Members(ctx); errors.Is(err, admin.ErrNoCluster) {
		err = nil
	}
	return v, err
}

// refuseHosted fails if a member of the type's cluster hosts it.
func refuseHosted(ctx context.Context, o *storeOptions, kind string, t durablehost.Type) error {
	v, err := membersOf(ctx, o, t.Cluster)
	if err != nil {
		return fmt.Errorf("type %s: is it hosted? %w", kind, err)
	}
	host := ""
	for _, m := range v.Members {
		if slices.Contains(m.Hosts, kind) {
			host = m.Name
			break
		}
	}
	for _, s := range v.Singletons {
		if s.Kind == kind && len(s.Hosts) > 0 {
			host = s.Hosts[0].Name
		}
	}
	if host != "" {
		return fmt.Errorf("type %s is hosted by %s of cluster %s: stop all nodes that host it first", kind, host, t.Cluster)
	}
	return nil
}
