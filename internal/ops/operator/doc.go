// Package operator has the messages between operators and the processes of a cluster, and their
// encoding. Package runtime/admin sends them. It also has what a process keeps for operators in
// bounded memory: the latest lines of its log ([EventLog]), the last failed calls of its entities
// ([FailureLog]), and the busiest entities ([TurnLog]).
package operator
