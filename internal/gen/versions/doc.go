// Package versions holds entity types as they were yesterday and as they are today: both
// versions run at once while a cluster is upgraded, and understand each other.
package versions
