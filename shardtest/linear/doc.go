// Package linear checks the calls in a [shardtest.History] against a model of the entity: they
// could have run one after another, each at most once and each answered one exactly once. It uses
// porcupine, a checker of linearizability, and is a module of its own, so other tests do not depend
// on porcupine.
//
//	var history shardtest.History[Call, int64]
//	…
//	history.Call(Call{"ann", 5}, func() (int64, error) { return accounts.Ref("ann").Add(ctx, 5) })
//	…
//	linear.Check(t, linear.Model[Call, int64, int64]{
//		Entity: func(c Call) string { return c.ID },
//		Apply: func(balance int64, c Call) (int64, int64, error) {
//			return balance + c.Amount, balance + c.Amount, nil
//		},
//	}, history.Operations())
package linear
