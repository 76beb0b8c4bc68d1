package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/storeops"
)

// exportFormat is the format of exported files. Import reads everything up to it.
const exportFormat = 3

// A line is one of an export: a type, a part of the image of one of its shards, an entity of the
// type before it, or the closing line.
type line struct {
	Format  int    `json:"format,omitempty"` // of a type's line
	Type    string `json:"type,omitempty"`   // not of the closing line
	Cluster string `json:"cluster,omitempty"`
	Shards  uint32 `json:"shards,omitempty"`
	Hash    string `json:"hash,omitempty"`

	ID      *string `json:"id,omitempty"` // of an entity's line; in base64 if Binary
	Binary  bool    `json:"binary,omitempty"`
	Shard   int     `json:"shard,omitempty"`
	Version uint64  `json:"version,omitempty"`
	State   []byte  `json:"state,omitempty"`
	// Since are events that are to be applied to State. They are in the image too, which alone can
	// be imported then.
	Since [][]byte `json:"since,omitempty"`

	StateVersion uint32 `json:"stateVersion,omitempty"` // by the type's directive; absent: 1

	Expires time.Time `json:"expires,omitzero"` // unless it commits again before; absent: never

	Term      uint32            `json:"term,omitempty"`      // of a type's line: the coordinator's last
	Followers map[string][]byte `json:"followers,omitempty"` // of a type's line: how far they have read
	Image     *image            `json:"image,omitempty"`

	End *counts `json:"end,omitempty"` // of the closing line: the lines before it
}

// events is the error of a line that cannot be written by itself.
func (l line) events() error {
	return fmt.Errorf("%s/%s: %d events follow its state, which only the image of its shard restores (delete the type and import the whole export)", l.Type, *l.ID, len(l.Since))
}

// An image is a part of a shard's data in the store's own form: entities, ids of commands,
// waiting tells and the journal. The lines of the shard's entities follow. Import -states writes
// those to a shard that was used since, because an image cannot be written there.
type image struct {
	Head    []byte        `json:"head"`
	Records []imageRecord `json:"records,omitempty"`
	Last    bool          `json:"last,omitempty"` // of the shard's parts
}

type imageRecord struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// imageBytes bounds the records in a line.
const imageBytes = 1 << 20

// imageLines writes the lines of a shard's image, and returns their number.
func imageLines(to *json.Encoder, kind string, shard int, whole storeops.Image) (n int, err error) {
	for records := whole.Records; whole.Head != nil; {
		part, bytes := image{Head: whole.Head}, 0
		for len(records) > 0 && bytes < imageBytes {
			part.Records = append(part.Records, imageRecord{[]byte(records[0].ID), records[0].Value})
			bytes += len(records[0].Value)
			records = records[1:]
		}
		part.Last = len(records) == 0
		n++
		if err := to.Encode(line{Type: kind, Shard: shard, Image: &part}); err != nil || part.Last {
			return n, err
		}
	}
	return n, nil
}

// expiry is the line's Expires as the store has it.
func (l line) expiry() int64 {
	if l.Expires.IsZero() {
		return 0
	}
	return l.Expires.UnixMilli()
}

// expiresAt is the time of an expiry in the store; zero means never.
func expiresAt(expires int64) time.Time {
	if expires == 0 {
		return time.Time{}
	}
	return time.UnixMilli(expires).UTC()
}

// lineOf is an entity's line. JSON has no strings that are not UTF-8.
func lineOf(kind string, shard int, k durable.Kept) line {
	id, binary := textOf(k.ID)
	return line{Type: kind, ID: &id, Binary: binary, Shard: shard, Version: k.Version, State: k.State, Since: k.Since, StateVersion: k.Form, Expires: expiresAt(k.Expires)}
}

// readLines reads an export.
func readLines(r io.Reader, do func(line) error) error {
	lines := json.NewDecoder(r)
	lines.DisallowUnknownFields()
	for n := 1; ; n++ {
		var l line
		err := lines.Decode(&l)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && l.Format > exportFormat {
			err = fmt.Errorf("format %d, this program reads up to %d (use a newer shardctl)", l.Format, exportFormat)
		}
		if err == nil && l.ID != nil {
			*l.ID, err = idOf(*l.ID, l.Binary)
		}
		if err == nil {
			err = do(l)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// findEntity finds the line of one entity.
func findEntity(r io.Reader, kind, id string) (e storeops.Entity, err error) {
	found := false
	err = readLines(r, func(l line) error {
		if l.ID != nil && l.Type == kind && *l.ID == id && len(l.Since) > 0 {
			return l.events()
		}
		if l.ID != nil && l.Type == kind && *l.ID == id {
			e, found = storeops.Entity{Shard: l.Shard, ID: id, State: l.State, Form: l.StateVersion, Expires: l.expiry()}, true
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("no line for %s/%s", kind, id)
	}
	return e, err
}
