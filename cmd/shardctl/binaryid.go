package main

import (
	"encoding/base64"
	"unicode/utf8"
)

// textOf is an id as JSON has it: an id that is not UTF-8 is in base64.
func textOf(id string) (text string, binary bool) {
	if utf8.ValidString(id) {
		return id, false
	}
	return base64.StdEncoding.EncodeToString([]byte(id)), true
}

// idOf is the reverse of textOf.
func idOf(text string, binary bool) (string, error) {
	if !binary {
		return text, nil
	}
	id, err := base64.StdEncoding.DecodeString(text)
	return string(id), err
}
