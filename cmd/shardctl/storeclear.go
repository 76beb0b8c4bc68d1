package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shardgen/shardgen/internal/storeops"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// storeClear deletes records that the runtime keeps for a cluster, beside durable entities.
func storeClear(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	cluster := o.kind // the argument
	v, err := membersOf(ctx, o, cluster)
	if err != nil {
		return fmt.Errorf("cluster %s: does it run? %w", cluster, err)
	}
	if len(v.Members) > 0 {
		return fmt.Errorf("cluster %s runs, with %s among its %d members: stop all its processes first", cluster, v.Members[0].Name, len(v.Members))
	}
	if o.terms { // before anything is deleted
		if err := storeops.RefuseDurable(ctx, s, cluster); err != nil {
			return err
		}
	}
	if o.remembered {
		n, err := storeops.DropRemembered(ctx, s, cluster)
		if err != nil {
			return fmt.Errorf("cluster %s: %d records of remembered ids are deleted: %w (repeat it)", cluster, n, err)
		}
		if _, err := fmt.Fprintf(w, "cluster %s: %d records of remembered ids are deleted\n", cluster, n); err != nil {
			return err
		}
	}
	if o.leases {
		singletons, err := s.DropLeases(ctx, "singleton/"+cluster+"/")
		downing, errDowning := s.DropLeases(ctx, cluster+"/downing/")
		if err := errors.Join(err, errDowning); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "cluster %s: %d leases of singletons and %d of downing are deleted\n", cluster, singletons, downing); err != nil {
			return err
		}
	}
	if !o.terms {
		return nil
	}
	term, err := storeops.DropTerms(ctx, s, cluster)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "cluster %s: the record of its terms is deleted, the last was %d\n", cluster, term)
	return err
}
