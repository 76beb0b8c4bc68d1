package main

import (
	"context"
	"fmt"
	"io"

	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/storeops"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

func storeDelete(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	if o.follower != "" {
		if err := durablehost.DropFollower(ctx, s, o.kind, o.follower); err != nil {
			return fmt.Errorf("follower %s of %s: %w", o.follower, o.kind, err)
		}
		_, err := fmt.Fprintf(w, "the position of follower %s of %s is deleted\n", o.follower, o.kind)
		return err
	}
	if _, err := typesOf(ctx, s, o); err != nil {
		return err
	}
	t, err := storeops.TypeOf(ctx, s, o.kind)
	if err != nil {
		return err
	}
	if err := refuseHosted(ctx, o, o.kind, t); err != nil {
		return err
	}
	if err := s.DropType(ctx, o.kind); err != nil {
		return err
	}
	if err := durablehost.DropFollowers(ctx, s, o.kind); err != nil {
		return err
	}
	key := durablehost.TypeKey(o.kind)
	r, err := s.Get(ctx, key)
	if err == nil {
		err = s.Delete(ctx, key, r.Revision)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "type %s is deleted\n", o.kind)
	return err
}
