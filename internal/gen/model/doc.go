// Package model describes a user's package as plain data: its entities, their messages, and
// every type that crosses the wire. The loader fills it in and the templates print it,
// independently of each other.
package model
