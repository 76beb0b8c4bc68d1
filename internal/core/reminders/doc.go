// Package reminders decides about the reminders of one entity: what a request sets, which reminder
// a turn runs, and what replaces that reminder. It has no I/O and no clock; times are Unix times in
// milliseconds, by the clock of the store. Package durable keeps reminders with their entities and
// finds those that are due, and package schedule computes due times.
//
// Reminders are not changed once they are in a list, because commits and records share them.
package reminders
