package tenants

import (
	"context"
	"errors"
	"fmt"
	"slices"

	shard "github.com/shardgen/shardgen/runtime"
)

const tenantHeader = "tenant"

// ErrForeign is the error of a call to another tenant's folder.
//
//shard:error
var ErrForeign = errors.New("no right to the tenant's folders")

// Rights lists the tenants for which each caller may act. The key is what shard.Identity.String
// returns: "client web" is shard.Dial with Config.Name "web", and "gateway php" is a caller "php"
// through a gateway.
type Rights map[string][]string

// Guard is an interceptor of hosts. A call must be for the tenant of its folder, and its caller must
// have the right to act for that tenant. Members are trusted to pass on the tenant of the call
// that they run: see PassOn.
func Guard(rights Rights) shard.Interceptor {
	return func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		tenant, owner := call.Header(tenantHeader), FolderID(call.ID).Tenant()
		trusted := call.From.Class == shard.ClassMember
		if tenant != owner || !trusted && !slices.Contains(rights[call.From.String()], tenant) {
			return fmt.Errorf("%v for tenant %q: %s of %q: %w", call.From, tenant, call.Method, call.ID, ErrForeign)
		}
		return next(ctx)
	}
}

// For returns an interceptor for callers: all calls of the process are for one tenant.
func For(tenant string) shard.Interceptor {
	return func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
		ctx, err := shard.WithHeader(ctx, tenantHeader, tenant)
		if err != nil {
			return err
		}
		return next(ctx)
	}
}

// PassOn is an interceptor of members: a call made by an entity is for the tenant of the current
// turn. Without it, a nested call has no tenant, and Guard refuses it.
func PassOn(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
	if within, ok := shard.CallInfo(ctx); ok {
		var err error
		if ctx, err = shard.WithHeader(ctx, tenantHeader, within.Header(tenantHeader)); err != nil {
			return err
		}
	}
	return next(ctx)
}
