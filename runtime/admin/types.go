package admin

import "github.com/shardgen/shardgen/internal/operator"

type (
	// A View is the cluster as one process sees it.
	View = operator.View
	// A Member is one row of a View.
	Member = operator.Member
	// A Singleton is one row of a View: a type of which the cluster has one instance.
	Singleton = operator.Singleton
	// An Entity is one entity with its encoded state.
	Entity = operator.Entity
	// A Type is an entity type as one member sees it.
	Type = operator.Type
	// A Shard is a shard as the member that holds it sees it.
	Shard = operator.Shard
	// A Place is the home of an entity.
	Place = operator.Place
)
