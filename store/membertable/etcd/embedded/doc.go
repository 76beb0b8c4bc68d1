// Package embedded tests the membership table in etcd against a server inside the test. It is a
// module of its own, so that users of the table do not get the server's dependencies.
package embedded
