// Package operator has what the processes of a cluster tell operators: the messages, which runtime/admin sends,
// with their encoding, and what a process keeps for them in bounded memory. That is the latest lines of its log
// ([EventLog]), the last failed calls of its entities ([FailureLog]), and counts of turns while somebody looks
// ([TurnWatch]).
package operator
