package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/shardgen/shardgen/internal/driver/feeds"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// feedCommands are the commands about streams that members read by shard.Consume. The commands read
// and write only the store, so they work even if no member runs.
var feedCommands = []storeCommand{
	{
		name: "feeds", most: 1, argument: "FEED", run: listFeeds, top: true,
		about: "Lists the partitions of streams that members read (shard.Consume): the position of the first message that is not finished, the tells that wait,\ndead letters, messages that were deleted unread, which member reads it, and what holds it up.",
	},
	{
		name: "dead", least: 1, most: 2, argument: "FEED", second: "LETTER", run: listLetters, top: true,
		about: "Lists the dead letters of a feed, or prints one with its data as JSON. -drop deletes it.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			f.BoolVar(&o.drop, "drop", false, "delete the letter: its message is not applied")
		},
	},
	{
		name: "requeue", least: 1, most: 2, argument: "FEED", second: "LETTER", run: requeue, top: true,
		about: "Applies a dead letter of a feed again, or all of them with -all. A letter is deleted when it is applied, and stays if it fails again.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			f.BoolVar(&o.all, "all", false, "all dead letters of the feed")
		},
	},
	{
		name: "rewind", least: 1, most: 1, argument: "FEED", run: rewind, top: true,
		about: "Makes a feed read its stream again from a position on. Entities do not apply messages again that they have applied, so this is for types that\nwere put back to an older state, and for a stream of which an older copy was put back.",
		flags: rewindFlags,
	},
	{
		name: "replay", least: 1, most: 1, argument: "FEED", run: rewind, top: true,
		about: "Makes a feed read its stream again from a position on, and entities apply each message once more, also those that they have applied.\nA tell that is under way at that moment may be applied between the messages of the replay: wait until shardctl feeds shows none waiting.",
		flags: func(f *flag.FlagSet, o *storeOptions) {
			rewindFlags(f, o)
			o.replay = true
		},
	},
}

func rewindFlags(f *flag.FlagSet, o *storeOptions) {
	f.Uint64Var(&o.to, "to", 0, "`position` of the first message to read: its sequence in the stream, from 1 on")
	f.IntVar(&o.shard, "partition", -1, "only the partition with that `number` (default: all)")
}

// listFeeds prints the partitions of feeds, and what holds them up.
func listFeeds(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	all, err := feeds.Partitions(ctx, s, o.kind)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, all)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FEED\tPARTITION\tPOSITION\tWAITING\tDEAD\tUNREAD\tMEMBER\tWRITTEN\tSTREAM")
	for _, p := range all {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", p.Feed, p.Partition, p.Position, p.Waiting, p.Dead, p.Missed, p.Node, p.At.UTC().Format(time.RFC3339), p.Stream)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, p := range all {
		if p.Why != "" {
			fmt.Fprintf(w, "%s/%d: %s\n", p.Feed, p.Partition, p.Why)
		}
		for _, f := range p.Failing {
			fmt.Fprintf(w, "%s/%d: message %d fails at %s/%s: %s\n", p.Feed, p.Partition, f.Position, f.Kind, f.Entity, f.Why)
		}
	}
	return nil
}

func listLetters(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	switch {
	case o.drop && o.id == "":
		return errors.New("-drop needs the id of a letter")
	case o.drop:
		if err := feeds.Drop(ctx, s, o.kind, o.id); err != nil {
			return noLetter(o, err)
		}
		_, err := fmt.Fprintf(w, "letter %s of %s is deleted\n", o.id, o.kind)
		return err
	case o.id != "":
		found, err := s.Get(ctx, feeds.LetterKey(o.kind, o.id))
		if err != nil {
			return noLetter(o, err)
		}
		l, err := feeds.ParseLetter(found)
		if err != nil {
			return err
		}
		return printJSON(w, l)
	}
	all, err := feeds.Letters(ctx, s, o.kind)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, all)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LETTER\tPOSITION\tSUBJECT\tTO\tMETHOD\tGIVEN UP\tWHY")
	for _, l := range all {
		to := ""
		if l.Kind != "" {
			to = l.Kind + "/" + l.Entity
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Position, l.Subject, to, l.Method, l.At.UTC().Format(time.RFC3339), l.Why)
	}
	return table.Flush()
}

func noLetter(o *storeOptions, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("feed %s has no dead letter %s (shardctl dead %s lists the dead letters)", o.kind, o.id, o.kind)
	}
	return err
}

func requeue(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	names := []string{o.id}
	switch {
	case (o.id == "") != o.all:
		return errors.New("give the id of a dead letter or -all, and not both")
	case o.all:
		all, err := feeds.Letters(ctx, s, o.kind)
		if err != nil {
			return err
		}
		names = nil
		for _, l := range all {
			names = append(names, l.Name)
		}
	}
	for _, name := range names {
		if err := feeds.Requeue(ctx, s, o.kind, name); err != nil {
			o.id = name
			return noLetter(o, err)
		}
		if _, err := fmt.Fprintf(w, "letter %s of %s is requeued\n", name, o.kind); err != nil {
			return err
		}
	}
	return nil
}

func rewind(ctx context.Context, s *natsstore.Store, o *storeOptions, w io.Writer) error {
	all, err := feeds.Partitions(ctx, s, o.kind)
	if err != nil {
		return err
	}
	done := false
	for _, p := range all {
		if o.shard >= 0 && p.Partition != o.shard {
			continue
		}
		done = true
		if err := feeds.Rewind(ctx, s, p.Feed, p.Partition, o.to, o.replay); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "partition %d of %s is read from %d on\n", p.Partition, p.Feed, o.to); err != nil {
			return err
		}
	}
	if !done {
		return fmt.Errorf("no partition of feed %s was ever read (shardctl feeds lists the feeds)", o.kind)
	}
	return nil
}
