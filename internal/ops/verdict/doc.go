// Package verdict judges the health of processes and clusters in one place. [Judge] turns a
// [Snapshot] into findings, without I/O and without a clock. A process judges a snapshot of itself
// and its view of the cluster, for its probes, its log and operators. shardctl and the dashboard
// judge a snapshot with the answers of all members, which include the members' own findings. A
// [Memory] adds what one snapshot cannot show: members that were there lately, turns that last,
// counts that grow, and since when a finding holds.
package verdict
