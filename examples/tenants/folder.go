// Package tenants has an entity used by several tenants, and interceptors that keep each tenant to
// its own entities. It is the example of docs/guide/identity.md.
package tenants

import (
	"context"
	"strings"

	shard "github.com/shardgen/shardgen/runtime"
)

//go:generate go tool shardgen

// A FolderID has the tenant and the name of a folder, as in "acme/invoices".
type FolderID string

// Tenant returns the tenant to which the folder belongs.
func (id FolderID) Tenant() string {
	tenant, _, _ := strings.Cut(string(id), "/")
	return tenant
}

// A Folder holds texts. It does not check its callers: [Guard] does.
//
//shard:entity json tell=all
type Folder struct {
	ID      FolderID                 `shard:"id"`
	Texts   []string                 `shard:"state"`
	Folders func(FolderID) FolderAPI // set by Host
}

// Put adds a text.
func (f *Folder) Put(_ context.Context, text string) error {
	f.Texts = append(f.Texts, text)
	return nil
}

// List returns the texts.
func (f *Folder) List(context.Context) ([]string, error) { return f.Texts, nil }

// CopyTo adds all texts to another folder.
func (f *Folder) CopyTo(ctx context.Context, to FolderID) error {
	other := f.Folders(to)
	for _, text := range f.Texts {
		if err := other.Put(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// Host makes a node host folders. Only the callers named in rights may call them.
func Host(n *shard.Node, rights Rights) error {
	folders := NewFolderClient(n).API
	return HostFolder(n, func() *Folder { return &Folder{Folders: folders} }, shard.Intercept(Guard(rights)))
}
