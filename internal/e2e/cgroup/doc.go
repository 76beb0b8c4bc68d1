// Package cgroup limits how much processor time a process gets, by a control group
// of Linux: the controller cpu of version 1, or of version 2 where that is mounted
// at /sys/fs/cgroup. It needs root; [Supported] returns an error that names missing rights or files.
//
// A group's name has the id of the process that made it. Groups that a killed
// process left behind are removed by the next one that makes a group.
package cgroup
