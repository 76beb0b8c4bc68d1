package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// A ListOption restricts the entities that the methods List and FindBy of generated clients yield.
// Without options, List yields all entities of the type. For a durable type, these are the entities
// that have committed a change and have not ended. For a volatile type, these are the entities in
// the memory of any node, active or passivated.
//
// Lists are read in pages. A page shows one shard's committed state at one moment, and includes all
// changes acknowledged before the page was asked for. An entity that matches during the whole list
// appears once. An entity that begins, ends or changes its value during the list may be missing. In
// a search between two values, an entity whose value changes may appear twice. Expired entities may
// appear until they are deleted. A shard has until the deadline of the context to answer, by
// default Config.CallTimeout. A list in progress takes about 4 MiB of memory.
type ListOption func(*listOptions)

type listOptions struct {
	prefix string
	after  any // nil: none
	active bool
}

// Prefix lists only the entities whose ids begin with prefix. It compares ids in the form in which
// they are sent: integers in decimal, other types as their MarshalText writes them.
func Prefix(prefix string) ListOption {
	return func(o *listOptions) { o.prefix = prefix }
}

// After lists only the ids above id, in the order of their bytes on the wire. id is of the type's
// id type, or a string with the id as on the wire; an empty string means the beginning. To continue
// a list that was left or failed, pass its last id.
func After(id any) ListOption {
	return func(o *listOptions) { o.after = id }
}

// Active lists only the entities that are not passivated, or are in a turn. FindBy refuses Active,
// because FindBy reads only what is committed.
func Active() ListOption {
	return func(o *listOptions) { o.active = true }
}

// ListEntities is called by generated code only.
func ListEntities[ID any](ctx context.Context, p codegen.Invoker, format func(ID) (string, error), parse func(string) (ID, error), opts ...ListOption) iter.Seq2[ID, error] {
	return func(yield func(ID, error) bool) {
		var none ID
		lister, ok := p.(codegen.Lister)
		if !ok {
			yield(none, errors.New("list: the caller is neither a Node nor a Conn (make the client with one of them)"))
			return
		}
		l, err := listingOf(opts, format)
		if err != nil {
			yield(none, fmt.Errorf("list: shard.After: %w", err))
			return
		}
		yieldIDs(lister.List(ctx, l), parse, yield)
	}
}

func yieldIDs[ID any](all iter.Seq2[string, error], parse func(string) (ID, error), yield func(ID, error) bool) {
	var none ID
	for text, err := range all {
		if err != nil {
			yield(none, err)
			return
		}
		id, err := parse(text)
		if err != nil {
			yield(none, fmt.Errorf("list: %w (an entity has an id that this program cannot read: was its type changed?)", err))
			return
		}
		if !yield(id, nil) {
			return
		}
	}
}

// FindEntities is called by generated code only. If to is nil, it yields the ids of the entities
// whose index key equals from. Otherwise it yields the ids of the entities whose index key is at
// least from and less than to, in the order of the keys.
func FindEntities[ID any](ctx context.Context, p codegen.Invoker, x codegen.Index, from, to []byte, format func(ID) (string, error), parse func(string) (ID, error), opts ...ListOption) iter.Seq2[ID, error] {
	return func(yield func(ID, error) bool) {
		var none ID
		fail := func(err error) { yield(none, fmt.Errorf("find by %s: %w", x.Field, err)) }
		lister, ok := p.(codegen.Lister)
		if !ok {
			fail(errors.New("the caller is neither a Node nor a Conn (make the client with one of them)"))
			return
		}
		l, err := listingOf(opts, format)
		switch {
		case err != nil:
			fail(fmt.Errorf("shard.After: %w", err))
			return
		case l.Active:
			fail(errors.New("shard.Active is for List alone (compare the ids with those of a list)"))
			return
		case to != nil && l.After != "":
			fail(errors.New("shard.After continues by id, but a search between two values is ordered by value (begin at a later value)"))
			return
		}
		prefix := l.Prefix
		l.Index, l.Field = x.Kind, x.Field
		if to != nil {
			l.Prefix, l.After, l.To = codegen.IndexPrefix(from), string(from), string(to)
		} else {
			l.Prefix = string(from) + l.Prefix
			if l.After != "" {
				l.After = string(from) + l.After
			}
		}
		yieldIDs(idsOf(lister.List(ctx, l), prefix), parse, yield)
	}
}

// idsOf yields the ids that are in keys and begin with prefix.
func idsOf(keys iter.Seq2[string, error], prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range keys {
			_, id := codegen.IndexedID(key)
			if (err != nil || strings.HasPrefix(id, prefix)) && !yield(id, err) {
				return
			}
		}
	}
}

func listingOf[ID any](opts []ListOption, format func(ID) (string, error)) (l codegen.Listing, err error) {
	var options listOptions
	for _, o := range opts {
		o(&options)
	}
	l.Prefix, l.Active = options.prefix, options.active
	switch after := options.after.(type) {
	case nil:
	case ID:
		if v := reflect.ValueOf(after); v.Kind() == reflect.String && v.Len() == 0 {
			break
		}
		l.After, err = format(after)
	case string:
		if l.After = after; after != "" {
			err = codegen.CheckID(after)
		}
	default:
		var want ID
		err = fmt.Errorf("the id is of type %T (want %T)", after, want)
	}
	return l, err
}
