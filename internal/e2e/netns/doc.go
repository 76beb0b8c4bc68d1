// Package netns makes networks of Linux network namespaces, in which packets can
// be dropped: partitions, one-way cuts and loss between real processes.
//
// A [Network] is a bridge in a namespace of its own, and each [Host] is a
// namespace with one address that is connected to that bridge. The rules that
// drop packets are nftables rules of the bridge, so that they are in one place
// and replaced as a whole. Nothing of it can be reached from outside, and nothing
// outside is changed.
//
// The namespaces have no names: they are held open by this process and by the
// processes that run in them, and the kernel removes them with the last of these,
// however that ends. So there is nothing to clean up after a run that was killed.
//
// It needs root, iproute2 and nftables; [Supported] reports which of them is missing.
package netns
