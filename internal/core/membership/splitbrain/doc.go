// Package splitbrain has the strategies for deciding which side of a partition goes on, as pure
// functions.
//
// A [Strategy] answers two questions. [Strategy.Decide] is asked by a side whose split is due to be
// judged. [Strategy.Quorum] is asked all the time: a node runs turns only while a quorum of voters
// vouches for it. The answers belong together: the surviving side holds a voter of every quorum, so
// no other side can run turns once the voter knows the decision. strategy_test.go tries all splits
// of up to seven members.
//
// The package knows addresses and votes, and neither time nor messages.
package splitbrain
