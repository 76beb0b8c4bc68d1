package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/storeops"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

func storeExport(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) (err error) {
	types, err := typesOf(ctx, s, o)
	if err != nil {
		return err
	}
	if o.out != "" {
		file, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		w = file
	}
	buffered := bufio.NewWriter(w)
	entities, unreadable := 0, 0
	lines := json.NewEncoder(buffered)
	for _, found := range types {
		t, err := storeops.TypeOf(ctx, s, found.Name)
		if err != nil {
			return err
		}
		head := line{Format: exportFormat, Type: found.Name, Cluster: t.Cluster, Shards: t.Shards, Hash: t.Hash}
		if head.Term, err = durablehost.LastTerm(ctx, s, t.Cluster); err == nil {
			head.Followers, err = durablehost.FollowersOf(ctx, s, found.Name)
		}
		if err == nil {
			err = lines.Encode(head)
		}
		if err != nil {
			return err
		}
		err = eachAll(ctx, s, found.Name, t, func(shard store.Shard, snap durable.Snapshot, whole storeops.Image) error {
			if o.id == "" {
				if err := imageLines(lines, found.Name, shard.Number, whole); err != nil {
					return err
				}
			}
			for _, p := range snap.Problems {
				if o.id == "" || p.Entity == o.id {
					unreadable++
				}
			}
			for _, k := range snap.Entities {
				if o.id != "" && k.ID != o.id {
					continue
				}
				entities++
				if err := lines.Encode(lineOf(found.Name, shard.Number, k)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch err := buffered.Flush(); {
	case err != nil:
		return err
	case unreadable > 0:
		return fmt.Errorf("%d heads, appends or records cannot be decoded: the export lacks them (shardctl store verify names them)", unreadable)
	case o.id != "" && entities == 0:
		return fmt.Errorf("%s/%s is not in the store", o.kind, o.id)
	}
	return nil
}
