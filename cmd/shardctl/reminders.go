package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
)

// A jsonReminder is one line of the output of reminders -json. Fields are added, never changed.
type jsonReminder struct {
	Name    string    `json:"name"`
	Method  string    `json:"method"`
	Due     time.Time `json:"due"`
	Every   string    `json:"every,omitempty"`
	Cron    string    `json:"cron,omitempty"`
	Zone    string    `json:"zone,omitempty"`
	GivenUp string    `json:"givenUp,omitempty"`
}

// A jsonReminded is one line of the output of reminders -json without an id. Fields are added, never
// changed.
type jsonReminded struct {
	ID     string    `json:"id"`
	Base64 bool      `json:"base64,omitempty"` // the id is not UTF-8, and ID has it in base64
	Due    time.Time `json:"due"`
}

// reminded lists the entities of a type that have reminders. It asks for one entity more than
// -limit, to know whether there are more.
func reminded(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	paused, err := c.RemindersPaused(ctx, o.kind)
	if err != nil {
		return err
	}
	if paused != "" && !o.json {
		if _, err := fmt.Fprintln(w, paused); err != nil {
			return err
		}
	}
	limit, n, more := o.list.Limit, 0, false
	if limit > 0 {
		limit++
	}
	t := tableOf(o, "ENTITY", "DUE")
	for e, err := range c.Reminded(ctx, o.kind, limit) {
		switch {
		case err != nil:
			return err
		case o.list.Limit > 0 && n == o.list.Limit:
			more = true
			continue
		}
		n++
		if o.json {
			line := jsonReminded{Due: e.Due}
			line.ID, line.Base64 = textOf(e.ID)
			if err := printJSONLine(w, line); err != nil {
				return err
			}
			continue
		}
		t.row(shown(e.ID), e.Due.Format(time.RFC3339))
	}
	switch {
	case o.json:
		return nil
	case n == 0:
		_, err := fmt.Fprintf(w, "no entity of %s has reminders that are to run\n", o.kind)
		return err
	}
	err = t.print(w)
	if more {
		_, printErr := fmt.Fprintln(w, "there are more (take a higher -limit; 0: all)")
		err = orErr(err, printErr)
	}
	return err
}

// pauseReminders pauses or resumes all reminders of a type.
func pauseReminders(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	switch {
	case o.pause && o.resume || o.cancel+o.retry != "":
		return errors.New("-pause, -resume, -cancel and -retry exclude each other (call shardctl for each)")
	case o.id != "":
		return errors.New("-pause and -resume are for all reminders of a type (leave out the ID)")
	case o.resume:
		if err := c.ResumeReminders(ctx, o.kind); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "reminders of %s run again within 5 s\n", o.kind)
		return err
	}
	if err := c.PauseReminders(ctx, o.kind); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "from 5 s from now on no reminder of %s begins to run, until shardctl reminders %s -resume\n", o.kind, o.kind)
	return err
}

// entityReminders lists the reminders of an entity, after it has changed one if flags say so.
func entityReminders(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	var all []admin.Reminder
	var err error
	switch {
	case o.pause || o.resume:
		return pauseReminders(ctx, c, o, w)
	case o.id == "" && o.cancel+o.retry != "":
		return errors.New("-cancel and -retry change a reminder of one entity (say which: shardctl reminders TYPE ID)")
	case o.id == "":
		return reminded(ctx, c, o, w)
	case o.cancel != "" && o.retry != "":
		return errors.New("-cancel and -retry exclude each other (call shardctl for each)")
	case o.cancel != "":
		all, err = c.CancelReminder(ctx, o.kind, o.id, o.cancel)
	case o.retry != "":
		all, err = c.RetryReminder(ctx, o.kind, o.id, o.retry)
	default:
		all, err = c.Reminders(ctx, o.kind, o.id)
	}
	if err != nil {
		return err
	}
	t := tableOf(o, "NAME", "METHOD", "DUE", "THEN", "STATE")
	for _, r := range all {
		every, state := "", "waits"
		if r.Every > 0 {
			every = r.Every.String()
		}
		if o.json {
			if err := printJSONLine(w, jsonReminder{r.Name, r.Method, r.Due, every, r.Cron, r.Zone, r.GivenUp}); err != nil {
				return err
			}
			continue
		}
		then := "never"
		switch {
		case r.Every > 0:
			then = "every " + every
		case r.Cron != "":
			then = r.Cron + " " + cmp.Or(r.Zone, "UTC")
		}
		if r.GivenUp != "" {
			state = "given up: " + r.GivenUp
		}
		t.row(r.Name, r.Method, r.Due.Format(time.RFC3339), then, state)
	}
	switch {
	case o.json:
		return nil
	case len(all) == 0:
		_, err = fmt.Fprintf(w, "%s/%s has no reminders\n", o.kind, o.id)
		return err
	}
	return t.print(w)
}
