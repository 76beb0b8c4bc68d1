package netns

// sysSetns is SYS_SETNS, which package syscall lacks here.
const sysSetns = 308
