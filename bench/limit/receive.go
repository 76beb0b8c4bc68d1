package limit

import (
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// receive gives handle the messages of subject in order, until stop is called. It returns
// when the server knows the subscription.
func receive(conn *nats.Conn, subject string, handle func(*nats.Msg) error, fail func(error)) (stop func(), err error) {
	messages := make(chan *nats.Msg, 64<<10)
	sub, err := conn.ChanSubscribe(subject, messages)
	if err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	var reader sync.WaitGroup
	quit := make(chan struct{})
	reader.Go(func() {
		for {
			select {
			case m := <-messages:
				if err := handle(m); err != nil {
					fail(fmt.Errorf("%s: %w", subject, err))
				}
			case <-quit:
				return
			}
		}
	})
	return func() {
		_ = sub.Unsubscribe()
		close(quit)
		reader.Wait()
	}, nil
}
