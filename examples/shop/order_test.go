package shop

import (
	"errors"
	"testing"
)

// TestOrder tests two entities as plain structs: no cluster, no broker.
func TestOrder(t *testing.T) {
	tea := &Stock{SKU: "tea", Left: 1}
	order := &Order{ID: "o1", Stock: func(SKU) StockAPI { return tea }}
	if err := order.Add(t.Context(), "tea", 1); err != nil {
		t.Fatal(err)
	}
	if err := order.Add(t.Context(), "tea", 1); !errors.Is(err, ErrSoldOut) {
		t.Errorf("got %v, want ErrSoldOut", err)
	}
	if n := order.Lines["tea"]; n != 1 {
		t.Errorf("the order has %d, want 1: what is sold out is not added", n)
	}
	if err := tea.Restock(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := order.Add(t.Context(), "tea", 1); err != nil || order.Lines["tea"] != 2 {
		t.Errorf("the order has %d after the stock was filled up, error %v", order.Lines["tea"], err)
	}
}
