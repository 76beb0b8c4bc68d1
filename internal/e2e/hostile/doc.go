// Package hostile attacks a cluster with the rights of an ordinary client: it sends all that such a
// client can send, and none of it may hurt members or other clients.
package hostile
