//go:build unix

package direct

import "syscall"

const canWriteNow = true

func writeNow(fd uintptr, b []byte) (n int, err error) {
	for n < len(b) {
		m, err := syscall.Write(int(fd), b[n:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return n, nil
		case err != nil:
			return n, err
		default:
			n += m
		}
	}
	return n, nil
}
