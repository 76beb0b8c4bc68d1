// Package model is what the generator knows of a user's package: its entities,
// their messages, and every type that crosses the wire, as plain data. The
// loader fills it in, the templates print it; neither knows the other.
package model
