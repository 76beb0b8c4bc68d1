// Package versions holds one entity as it was yesterday and as it is today: both
// run at once while a cluster is upgraded, and understand each other.
package versions
