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

// An ownedName is a name under which a loop follows events. The name's record in the store holds
// the position and the owner: the loop that took the name over last. Every write is a
// compare-and-set, so a loop whose write conflicts with another owner's has lost the name.
type ownedName struct {
	store      store.Backend
	kind, name string
	owner      string         // this loop
	before     string         // the owner when the loop began
	taken      bool           // the store has answered that the loop owns the name
	revision   store.Revision // of the record that the loop has read or written last
	answered   func(error)    // gets the error of each attempt to reach the store
}

// newOwnedName returns a name for a loop of this process; the loop does not own it before take.
func newOwnedName(k *node.Kind, name string, answered func(error)) *ownedName {
	drv := k.Driver
	return &ownedName{
		store: drv.Config.Store, kind: k.Desc.Name, name: name, answered: answered,
		owner: fmt.Sprintf("%v/%d", drv.Local.Address, drv.Follows.Add(1)),
	}
}

// take makes the loop the owner of the name and returns the places at which it begins: the stored
// places if resume is set, else the given ones. take waits until the store has answered the read of
// the name's record. If the store does not answer the write, a later save repeats it.
func (n *ownedName) take(ctx context.Context, places []durable.Place, resume bool) ([]durable.Place, error) {
	for {
		found, revision, err := n.load(ctx)
		if err == nil {
			n.before, n.revision = found.Owner, revision
			if resume && len(found.Places) == len(places) {
				places = found.Places
			}
			if err = n.put(ctx, places); err == nil || node.Unanswered(err) {
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

// load reads the name's record.
func (n *ownedName) load(ctx context.Context) (durablehost.Followed, store.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, followAnswer)
	defer cancel()
	return durablehost.LoadFollowed(ctx, n.store, n.kind, n.name)
}

// put writes the name's record.
func (n *ownedName) put(ctx context.Context, places []durable.Place) error {
	ctx, cancel := context.WithTimeout(ctx, followAnswer)
	defer cancel()
	revision, err := durablehost.SaveFollowed(ctx, n.store, n.kind, n.name, durablehost.Followed{Places: places, Owner: n.owner}, n.revision)
	if err == nil {
		n.revision, n.taken = revision, true
	}
	return err
}

// save stores the places, and reports whether the store has them. It returns an error if another
// loop owns the name, or if the store will never accept the places.
func (n *ownedName) save(ctx context.Context, places []durable.Place) (stored bool, err error) {
	for range 2 { // the second time above the loop's own write, whose answer was lost
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
		if revision > n.revision || revision == store.None { // it may have been deleted
			n.revision = revision
		}
	}
	return false, nil
}

// look checks the name for a loop that has no new position to store. It returns an error if another
// loop owns the name, or if the record cannot be read.
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

// lostTo reports whether the record found says that another loop has taken the name over since this
// loop began. A record older than the revision known to this loop proves nothing. Until this loop's
// own first write is answered, a record of the owner before it proves nothing either, because that
// owner may still store positions.
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
