package main

import (
	"errors"
	"fmt"
	"io"
)

// A counts is the number of lines of each sort in an export, for which its closing line vouches.
type counts struct {
	Types    int `json:"types"`
	Images   int `json:"images"` // parts of images
	Entities int `json:"entities"`
}

func (c counts) String() string {
	return fmt.Sprintf("%d types, %d parts of images and %d entities", c.Types, c.Images, c.Entities)
}

// errCut is the error of a file that is not complete.
var errCut = errors.New("the file is not complete: its closing line is missing (was the export interrupted, or is the file cut off? export again)")

// checkLines reads a whole export, or several in one file, and fails unless it is complete: it ends with a
// closing line, which has the numbers of the lines before it, and each image has all its parts and is the only one of its
// shard. Files of format 1, without images, had no closing line.
func checkLines(r io.Reader) error {
	c := lineCheck{images: make(map[string]bool)}
	err := readLines(r, c.line)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", errCut, err)
	case err != nil:
		return err
	case c.open != "":
		return c.unfinished()
	case !c.closed && !c.old:
		return errCut
	}
	return nil
}

// A lineCheck is where checkLines stands.
type lineCheck struct {
	have   counts          // since the last closing line
	closed bool            // the last line was a closing one
	kind   string          // the last type
	old    bool            // its line was of format 1
	open   string          // the shard of an image of which parts are to follow; "": none
	images map[string]bool // the shards of all images
}

func (c *lineCheck) unfinished() error {
	return fmt.Errorf("the image of shard %s is not complete: parts of it are missing (export again)", c.open)
}

func (c *lineCheck) line(l line) error {
	shard := fmt.Sprintf("%s/%d", l.Type, l.Shard)
	if c.open != "" && (l.Image == nil || shard != c.open) {
		return c.unfinished()
	}
	switch {
	case (l.Image != nil || l.ID != nil) && l.Type != c.kind:
		return fmt.Errorf("shard %s: the line of the type must come before", shard)
	case l.Image != nil && c.open == "" && c.images[shard]:
		return fmt.Errorf("a second image of shard %s (import one of the exports alone)", shard)
	}
	c.closed = l.End != nil
	switch {
	case l.End != nil && *l.End != c.have:
		return fmt.Errorf("the closing line says %v, and before it are %v (export again; if lines were deleted on purpose, correct its numbers)", *l.End, c.have)
	case l.End != nil:
		c.have = counts{}
	case l.Image != nil:
		c.have.Images++
		c.images[shard] = true
		if c.open = shard; l.Image.Last {
			c.open = ""
		}
	case l.ID != nil:
		c.have.Entities++
	default:
		c.have.Types++
		c.kind = l.Type
		c.old = l.Format == 1
	}
	return nil
}
