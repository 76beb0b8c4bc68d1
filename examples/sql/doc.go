// Package sql tests the examples that use a SQL database, on SQLite and on PostgreSQL: the
// projection of events/projection and the fencing by epochs of fencing/document. It is a separate
// module, so that the database drivers are not dependencies of shardgen.
//
//	go test -C examples/sql ./...
//
// The tests use PostgreSQL only where its programs initdb and postgres are found.
package sql
