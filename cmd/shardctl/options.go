package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// options are the values of flags and arguments.
type options struct {
	connection
	cluster   string
	timeout   time.Duration
	json      bool
	wide      bool
	node      string
	kind, id  string
	method    string
	arguments string
	out, from string
	drop      bool
	through   string
	force     bool
	withdraw  bool
	follow    bool
	since     time.Duration
	at        string // of events, as momentOf reads it; so are begin and until
	begin     string
	until     string
	every     time.Duration
	level     slog.Level
	grep      string
	rows      int
	listen    string
	showState bool
	store     string // of doctor: its name; "" means as the members say
}

// check is the reason why the options do not fit together.
func (o *options) check() error {
	switch {
	case o.id == "" && (o.drop || o.from != "" || o.out != ""):
		return errors.New("say which entity")
	case o.drop && o.from != "":
		return errors.New("-drop and -from: give one of them")
	case o.cluster == "":
		return errors.New("say which -cluster")
	case o.timeout < 0:
		return fmt.Errorf("-timeout is %v: want more than 0", o.timeout)
	case o.spanErr() != nil:
		return o.spanErr()
	case o.since < 0:
		return fmt.Errorf("-since is %v: want more than 0", o.since)
	case o.every < 0 || o.every >= turnsKept:
		return fmt.Errorf("-every is %v: want more than 0, and less than %v", o.every, turnsKept)
	case o.rows < 0:
		return fmt.Errorf("-rows is %d: want 0 or more", o.rows)
	}
	return nil
}

// spanErr is why the times of events make no sense.
func (o *options) spanErr() error {
	_, err := spanOf(o.at, o.begin, o.until, time.Now())
	return err
}

// turnsKept is for how long members count turns after they were last asked.
const turnsKept = 15 * time.Second
