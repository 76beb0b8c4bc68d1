package templates

import (
	"slices"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// File returns the generated file of pkg, formatted.
func File(pkg *model.Package) ([]byte, error) {
	e := newEmitter(pkg)
	e.abi()
	for _, entity := range pkg.Entities {
		client, host := e.isClient() || entity.Client == "", !e.isClient()
		for _, part := range []struct {
			wanted bool
			emit   func(*model.Entity)
		}{
			{client, apiEmitter{e}.api},
			{client, clientEmitter{e}.client},
			{client, journalEmitter{e}.followers},
			{client && entity.HasID(), extractorEmitter{e}.extractor},
			{client, addressedEmitter{e}.addressed},
			{host, hostEmitter{e}.host},
			{client, hostEmitter{e}.kind},
			{host, hostEmitter{e}.glue},
			{client, dispatchEmitter{e}.dispatch},
			{client, messageEmitter{e}.messages},
			{client, jsonEmitter{e}.json},
			{host, stateEmitter{e}.state},
			{host, journalEmitter{e}.journal},
		} {
			if part.wanted {
				part.emit(entity)
			}
		}
	}
	if e.isClient() || slices.ContainsFunc(pkg.Entities, func(n *model.Entity) bool { return n.Client == "" }) {
		errorEmitter{e}.errors()
	}
	codecEmitter{e}.types()
	oneofEmitter{e}.json()
	e.aliases()
	stalenessEmitter{e}.staleness()
	return e.render()
}
