// Package sql tests the examples that use a SQL database, on SQLite and on PostgreSQL: the
// projection of events/projection and the epoch of fencing/document. It is a module of its
// own, so that the drivers are not among shardgen's dependencies.
//
//	go test -C examples/sql ./...
//
// PostgreSQL is tested where its programs initdb and postgres are found.
package sql
