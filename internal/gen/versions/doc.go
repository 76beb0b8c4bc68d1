// Package versions tests a rolling upgrade. Packages yesterday and today have two versions of the
// same entity types, which run in one cluster and must understand each other.
package versions
