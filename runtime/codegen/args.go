package codegen

import "sync"

// argsPool keeps the buffers that arguments are encoded into.
var argsPool = sync.Pool{New: func() any { return new(argsBuffer) }}

type argsBuffer [2 << 10]byte

// NewArgs is an empty buffer for the arguments of a call, to be given back by Recycle.
func NewArgs() []byte { return argsPool.Get().(*argsBuffer)[:0] }

// Recycle gives the arguments of a call back, when nobody has them any more. A slice that
// has outgrown its buffer is left to the garbage collector.
func Recycle(args []byte) {
	if cap(args) == len(argsBuffer{}) {
		argsPool.Put((*argsBuffer)(args[:cap(args)]))
	}
}
