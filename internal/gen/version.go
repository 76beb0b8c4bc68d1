package gen

import (
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
)

const devel = "(devel)"

// Version returns the version of this generator, which generated files name.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	return versionOf(info)
})

// unreleased matches the version of a working tree that has changes or whose commit has no tag.
var unreleased = regexp.MustCompile(`\d{14}-[0-9a-f]{12}|\+dirty`)

func versionOf(info *debug.BuildInfo) string {
	if info.Main.Version == "" {
		return devel
	}
	for _, s := range info.Settings {
		// The version of a working tree changes with every commit, so it is not used without a tag.
		if strings.HasPrefix(s.Key, "vcs") && unreleased.MatchString(info.Main.Version) {
			return devel
		}
	}
	return info.Main.Version
}
