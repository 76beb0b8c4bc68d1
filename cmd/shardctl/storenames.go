package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/store"
)

// notOpened is the error of a store that could not be opened. If the server has no stream of a store of that
// name, it says so, with the names that there are, as far as the user may list streams: more often than a
// store was lost, -store is missing or wrong.
func notOpened(ctx context.Context, o *storeOptions, err error) error {
	if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	names, there, listErr := storesAt(ctx, o)
	switch {
	case listErr != nil:
		return fmt.Errorf("%w (or is -store wrong, which is %s?)", err, o.store)
	case there:
		return err
	case len(names) == 0:
		return fmt.Errorf("there is no store %s at %s, and no other (look at -nats; -store is the Name in natsstore.Config)", o.store, o.url)
	}
	return fmt.Errorf("there is no store %s at %s, which has these: %s (give one of them with -store, which is the Name in natsstore.Config)",
		o.store, o.url, strings.Join(names, ", "))
}

// storesAt returns the names of the stores at the server, and reports whether that of the options has streams.
func storesAt(ctx context.Context, o *storeOptions) (names []string, there bool, err error) {
	js, err := dialJetStream(ctx, &o.connection)
	if err != nil {
		return nil, false, err
	}
	defer js.conn.Close()
	list, err := js.streams(">")
	if err != nil {
		return nil, false, err
	}
	for _, s := range list.Streams {
		for _, subject := range s.Config.Subjects {
			there = there || strings.HasPrefix(subject, o.store+".")
			if name, is := strings.CutSuffix(subject, ".k.>"); is && s.Config.Name == name+"_keys" { // the small records of a store
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, there, nil
}
