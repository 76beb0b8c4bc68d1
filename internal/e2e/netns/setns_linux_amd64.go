package netns

// sysSetns is SYS_SETNS, which package syscall lacks for this architecture.
const sysSetns = 308
