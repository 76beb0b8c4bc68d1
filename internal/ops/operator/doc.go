// Package operator has what processes of a cluster and operators exchange. It has the messages,
// which runtime/admin sends, and their encoding. It also has what a process keeps for operators in
// bounded memory: the latest lines of its log ([EventLog]), the last failed calls of its entities
// ([FailureLog]), and the busiest ones ([TurnLog]).
package operator
