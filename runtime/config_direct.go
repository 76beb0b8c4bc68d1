package shard

// DirectOptions let a process exchange data frames with others over TCP connections of their
// own, one for each other process and lane, instead of the broker. A call that waits for
// nothing else takes about a third of the time then. Everything else stays on the broker,
// which also has the frames whenever there is no connection. The connections are encrypted by
// keys that each process makes when it starts. Processes with and without direct lanes work
// together.
type DirectOptions struct {
	// Listen is the TCP address at which the process accepts connections, as host:port; with port
	// 0 the system chooses one. A client ([Dial]) never listens. Default "": it does not
	// listen.
	Listen string
	// Advertise is the host, or host:port, at which others reach Listen. It must be set if
	// Listen names no address of this host, as ":7000". Default: the address of Listen.
	Advertise string
	// Dial has the process connect to those that listen. It is implied by Listen. Default false.
	Dial bool
}
