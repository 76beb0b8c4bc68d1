// Package splitbrain has the strategies for deciding which side of a partition goes on, as pure
// functions.
//
// A [Strategy] answers two questions. A side asks [Strategy.Decide] for a verdict when a split is
// due to be judged. A node asks [Strategy.Quorum] all the time: it runs turns only while a quorum
// of voters vouches for it. The answers belong together: the surviving side holds a voter of every
// quorum, so no other side can run turns once that voter knows the decision. strategy_test.go tries
// all splits of up to seven members.
//
// The package knows addresses and votes, but neither time nor messages.
package splitbrain
