package netns

import "syscall"

const sysSetns = syscall.SYS_SETNS
