package shard_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
)

// TestSettingsExist: all settings that docs/settings.md names exist.
func TestSettingsExist(t *testing.T) {
	page, err := os.ReadFile("../docs/settings.md")
	require.NoError(t, err)
	fields := regexp.MustCompile(`Config\.(\w+)`).FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(fields), 8)
	for _, f := range fields {
		_, ok := reflect.TypeFor[shard.Config]().FieldByName(f[1])
		require.True(t, ok || f[1] == "X", "Config.%s", f[1])
	}
	for _, f := range regexp.MustCompile(`RememberOptions\.(\w+)`).FindAllStringSubmatch(string(page), -1) {
		_, ok := reflect.TypeFor[shard.RememberOptions]().FieldByName(f[1])
		require.True(t, ok, "RememberOptions.%s", f[1])
	}
	var source strings.Builder
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if name := f.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			source.Write(b)
		}
	}
	options := regexp.MustCompile(`shard\.([A-Z]\w+)`).FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(options), 12)
	for _, o := range options {
		if o[1] == "X" || o[1] == "Config" {
			continue
		}
		declared := regexp.MustCompile(`(?m)^(func ` + o[1] + `\(|\t` + o[1] + ` +=)`)
		require.True(t, declared.MatchString(source.String()), "shard.%s", o[1])
	}
}
