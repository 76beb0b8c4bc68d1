package today

import "context"

// Parcel has an interface in its state of which package yesterday knows fewer cases.
//
//shard:entity name=parcel shards=2
type Parcel struct {
	Count int        `shard:"state"`
	Wrap  Wrapping   `shard:"state"`
	Wraps []Wrapping `shard:"state"`
}

// Wrapping is an interface with cases.
//
//shard:oneof
type Wrapping interface{ isWrapping() }

// Paper and Ribbon are the cases of Wrapping. Paper has a new field, and Ribbon is new.
type (
	Paper struct {
		Color string
		Shiny bool
	}
	Ribbon struct{ Length int }
)

func (Paper) isWrapping() {}

func (*Ribbon) isWrapping() {}

// Set replaces the wrapping.
func (p *Parcel) Set(_ context.Context, w Wrapping, more ...Wrapping) error {
	p.Wrap, p.Wraps = w, more
	return nil
}

// Get returns the wrapping.
func (p *Parcel) Get(context.Context) (int, Wrapping, []Wrapping, error) {
	return p.Count, p.Wrap, p.Wraps, nil
}
