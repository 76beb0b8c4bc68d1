package gen

import (
	"runtime/debug"
	"strings"
	"sync"
)

const devel = "(devel)"

// Version returns the version of this generator, which generated files name.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return devel
	}
	for _, s := range info.Settings {
		// The version of a working tree changes with every commit, so it is not
		// used.
		if strings.HasPrefix(s.Key, "vcs") {
			return devel
		}
	}
	return info.Main.Version
})
