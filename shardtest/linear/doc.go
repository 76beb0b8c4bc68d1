// Package linear checks that the calls that a test recorded in a [shardtest.History] could have run
// one after another, each at most once and each answered one exactly once, by a model of the
// entity. It gives them to porcupine, a checker of linearizability, and is a module of its own, so
// that only tests that use it depend on porcupine.
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
