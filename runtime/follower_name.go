package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/store"
)

// An ownedName is a follower's name, as one loop uses it. The name's record in the store holds the
// position and the owner: the loop that took the name last. Loops write the record by
// compare-and-set. If a loop's write conflicts with that of another loop, it has lost the name to
// that loop.
type ownedName struct {
	store      store.Backend
	kind, name string
	part       durablehost.Part
	owner      string         // this loop
	before     string         // the owner when the loop began
	taken      bool           // the store has answered that the loop owns the name
	revision   store.Revision // of the record as last read or written by the loop
	answered   func(error)    // gets the error of each attempt to reach the store
}

func newOwnedName(k *node.Kind, name string, part durablehost.Part, answered func(error)) *ownedName {
	drv := k.Driver
	return &ownedName{
		store: drv.Config.Store, kind: k.Desc.Name, name: name, part: part, answered: answered,
		owner: fmt.Sprintf("%v/%d", drv.Local.Address, drv.Follows.Add(1)),
	}
}

// take makes the loop the owner, and returns its first places: the stored ones if resume is set. It
// repeats an unanswered read, but leaves an unanswered write to save.
func (n *ownedName) take(ctx context.Context, places []durable.Place, resume bool) ([]durable.Place, error) {
	for {
		found, revision, err := n.load(ctx)
		if err == nil {
			n.before, n.revision = found.Owner, revision
			if resume {
				places, err = n.latest(ctx, found, revision, places)
			}
			if err != nil {
				n.answered(err)
			} else if err = n.put(ctx, places); err == nil || node.Unanswered(err) {
				return places, nil
			}
		}
		if !node.Unanswered(err) && !errors.Is(err, store.ErrConflict) {
			return places, n.fail(err)
		}
		n.answered(err)
		select { // the owner has stored its position meanwhile, or the record was out of date
		case <-ctx.Done():
			return places, ctx.Err()
		case <-time.After(followPause):
		}
	}
}

// latest returns the places that loops of the name have stored last. If none are stored, it returns
// the argument places.
func (n *ownedName) latest(ctx context.Context, own durablehost.Followed, revision store.Revision, places []durable.Place) ([]durable.Place, error) {
	ctx, cancel := context.WithTimeout(ctx, followAnswer)
	defer cancel()
	found, err := durablehost.LatestPlaces(ctx, n.store, n.kind, n.name, n.part, own, revision, len(places))
	if err != nil || found == nil {
		return places, err
	}
	return found, nil
}

func (n *ownedName) load(ctx context.Context) (durablehost.Followed, store.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, followAnswer)
	defer cancel()
	return durablehost.LoadFollowed(ctx, n.store, n.kind, n.part.NameOf(n.name))
}

func (n *ownedName) put(ctx context.Context, places []durable.Place) error {
	ctx, cancel := context.WithTimeout(ctx, followAnswer)
	defer cancel()
	revision, err := durablehost.SaveFollowed(ctx, n.store, n.kind, n.part.NameOf(n.name), durablehost.Followed{Places: places, Owner: n.owner, Part: n.part}, n.revision)
	if err == nil {
		n.revision, n.taken = revision, true
	}
	return err
}

// save reports whether the store has the places. It returns an error if another loop owns the name,
// or the places will never be accepted.
func (n *ownedName) save(ctx context.Context, places []durable.Place) (stored bool, err error) {
	for range 2 { // again if the conflict was the loop's own write, whose answer was lost
		err = n.put(ctx, places)
		switch {
		case err == nil:
			return true, nil
		case node.Unanswered(err):
			return false, nil
		case !errors.Is(err, store.ErrConflict):
			return false, n.fail(err)
		}
		found, revision, loadErr := n.load(ctx)
		switch {
		case loadErr != nil && node.Unanswered(loadErr):
			return false, nil
		case loadErr != nil:
			return false, n.fail(loadErr)
		}
		if n.lostTo(found, revision) {
			return false, n.followed(found)
		}
		if revision > n.revision || revision == store.None { // None: the record may have been deleted
			n.revision = revision
		}
	}
	return false, nil
}

// look checks the name without storing a position. It returns an error if another loop owns the
// name or the record is unreadable.
func (n *ownedName) look(ctx context.Context) error {
	found, revision, err := n.load(ctx)
	switch {
	case err != nil && !node.Unanswered(err):
		return n.fail(err)
	case err == nil && n.lostTo(found, revision):
		return n.followed(found)
	}
	return nil
}

// lostTo reports whether another loop has taken the name. A record older than the known revision
// proves nothing. Before this loop's first answered write, a record of the former owner proves
// nothing either: that owner may still write.
func (n *ownedName) lostTo(found durablehost.Followed, revision store.Revision) bool {
	return revision > n.revision && found.Owner != n.owner && (n.taken || found.Owner != n.before)
}

func (n *ownedName) followed(by durablehost.Followed) error {
	if by.Owner == "" {
		return n.fail(ErrFollowed)
	}
	return n.fail(fmt.Errorf("%w: %s", ErrFollowed, by.Owner))
}

func (n *ownedName) fail(err error) error {
	return fmt.Errorf("events of %s: follower %s: %w", n.kind, n.name, err)
}
