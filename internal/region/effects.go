package region

// A Start is a turn that has begun for a call that waited.
type Start struct {
	Entity *Entity
	Call   *Call
}

// Effects are the driver's duties, in this order, before it releases the shard's lock.
// They only append to queues and wake goroutines.
type Effects struct {
	Lead    *Entity // a turn of the driver's own has begun: activate the entity
	Start   []Start // run these turns
	Forward []*Call // send these to Successor, in order; tell local callers to look again
	Flushed []Flush // then send each of these to its FlushTo
	Open    bool    // then send Open to Successor
	Refuse  []*Call // answer Moved with Home and Epoch
	Drop    []*Call // answer Dropped: accepted, but the shard was lost, or drops them to move
	Offer   bool    // send Init without state
	Drained bool    // the last turn has ended: call Stop, run the hooks, encode, send Init
	Opened  bool    // the shard runs here under a new epoch: report it
}

// With is fx with more behind it.
func (fx Effects) With(more Effects) Effects {
	fx.add(more)
	return fx
}

// add puts more behind fx.
func (fx *Effects) add(more Effects) {
	if more.Lead != nil {
		fx.Lead = more.Lead
	}
	fx.Start = append(fx.Start, more.Start...)
	fx.Forward = append(fx.Forward, more.Forward...)
	fx.Flushed = append(fx.Flushed, more.Flushed...)
	fx.Refuse = append(fx.Refuse, more.Refuse...)
	fx.Drop = append(fx.Drop, more.Drop...)
	fx.Open = fx.Open || more.Open
	fx.Offer = fx.Offer || more.Offer
	fx.Drained = fx.Drained || more.Drained
	fx.Opened = fx.Opened || more.Opened
}
