package alltypes

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/runtime/codegen"
)

var methods = map[string]codegen.Method{
	"Plain":         dispatchAllTypesPlain,
	"EchoScalars":   dispatchAllTypesEchoScalars,
	"EchoLists":     dispatchAllTypesEchoLists,
	"EchoMaps":      dispatchAllTypesEchoMaps,
	"EchoOptional":  dispatchAllTypesEchoOptional,
	"EchoOthers":    dispatchAllTypesEchoOthers,
	"EchoTree":      dispatchAllTypesEchoTree,
	"EchoForest":    dispatchAllTypesEchoForest,
	"EchoPage":      dispatchAllTypesEchoPage,
	"EchoEmbedding": dispatchAllTypesEchoEmbedding,
	"EchoPromoted":  dispatchAllTypesEchoPromoted,
	"EchoTexts":     dispatchAllTypesEchoTexts,
	"EchoCode":      dispatchAllTypesEchoCode,
	"EchoOneofs":    dispatchAllTypesEchoOneofs,
	"EchoShapes":    dispatchAllTypesEchoShapes,
	"EchoBare":      dispatchAllTypesEchoBare,
	"Fail":          dispatchAllTypesFail,
	"Keep":          dispatchAllTypesKeep,
	"Kept":          dispatchAllTypesKept,
	"Rest":          codegen.Run((*AllTypes).Rest),
}

// A local port calls its entity on the caller's goroutine, as a turn would. A remote port encodes
// arguments and decodes results.
type (
	local struct {
		alltypes *AllTypes
		turn     turn // of the last call
	}
	remote struct {
		alltypes *AllTypes
		args     []byte // of the last call
	}
)

func (p *local) ShardInvoker(codegen.Kind) codegen.Invoker { return p }

func (p *local) Begin(ctx context.Context, r *codegen.Ref, _ string, _ bool) (codegen.Turn, error) {
	p.turn.Context = ctx
	return codegen.Turn{Entity: p.alltypes, Context: &p.turn}, r.Err()
}

func (p *local) Check(context.Context, *codegen.Ref, string) error {
	panic("not sent")
}

func (p *local) Do(context.Context, *codegen.Ref, string, []byte) ([]byte, error) {
	panic("went over the wire")
}

func (p *local) Send(context.Context, *codegen.Ref, string, []byte) error {
	panic("went over the wire")
}

func (*local) Failed(_ *codegen.Ref, _ string, _ bool, err error) error { return err }

func (p *local) Hash(id string) (uint64, error) { return 0, codegen.CheckID(id) }

func (*local) Refs() *codegen.RefCache { return nil }

type turn struct{ context.Context }

func (turn) End(_ string, panicked any, err error) error {
	if panicked != nil {
		return fmt.Errorf("panic: %v", panicked)
	}
	return err
}

func (p *remote) ShardInvoker(codegen.Kind) codegen.Invoker { return p }

func (p *remote) Begin(_ context.Context, r *codegen.Ref, _ string, _ bool) (codegen.Turn, error) {
	return codegen.Turn{}, r.Err()
}

func (p *remote) Check(_ context.Context, r *codegen.Ref, _ string) error { return r.Err() }

func (p *remote) Do(ctx context.Context, _ *codegen.Ref, method string, args []byte) ([]byte, error) {
	return p.dispatch(ctx, method, args, []byte{})
}

func (p *remote) dispatch(ctx context.Context, method string, args, out []byte) ([]byte, error) {
	p.args = args
	reply, err := methods[method](ctx, p.alltypes, args, out)
	clear(p.args) // who decoded them must not have kept them
	return reply, err
}

func (p *remote) Send(ctx context.Context, _ *codegen.Ref, method string, args []byte) error {
	reply, err := p.dispatch(ctx, method, args, nil)
	if reply != nil {
		return errors.New("results that nobody wants were encoded")
	}
	return err
}

func (*remote) Failed(_ *codegen.Ref, _ string, _ bool, err error) error { return err }

func (p *remote) Hash(id string) (uint64, error) { return 0, codegen.CheckID(id) }

func (*remote) Refs() *codegen.RefCache { return nil }

// A capture is a port that keeps the arguments of the last call, and answers without results.
type capture struct {
	remote
}

func (p *capture) ShardInvoker(codegen.Kind) codegen.Invoker { return p }

func (p *capture) Do(_ context.Context, _ *codegen.Ref, _ string, args []byte) ([]byte, error) {
	p.args = args
	return nil, nil
}
