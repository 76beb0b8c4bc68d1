package shop

import (
	"context"
	"testing"
)

// TestBuy tests the entities as plain structs: a *Stock is a StockAPI.
func TestBuy(t *testing.T) {
	tea := &Stock{ID: "tea", Left: 2}
	order := &Order{ID: "o1", Stocks: func(SKU) StockAPI { return tea }}
	left, err := order.Buy(context.Background(), "tea")
	if err != nil || left["tea"] != 1 || order.Lines["tea"] != 1 {
		t.Errorf("left %v, lines %v, error %v; want one piece left and one line", left, order.Lines, err)
	}
}
