// Package splitbrain has the strategies by which the sides of a partition decide which
// of them goes on, as pure functions.
//
// A [Strategy] answers two questions. [Strategy.Decide] is asked by a side whose split is
// due to be judged. [Strategy.Quorum] is asked all the time: a node runs turns only while
// a quorum of voters vouches for it. The answers belong together: a side that goes on
// holds a voter of every quorum, so that no other side can run turns after it has heard
// of the decision. strategy_test.go tries all splits of up to seven members.
//
// The package knows addresses and votes, and neither time nor messages.
package splitbrain
