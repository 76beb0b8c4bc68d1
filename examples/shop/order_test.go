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
}

// TestRestock: an order keeps nothing of a sold-out article, and gets it when there is more.
func TestRestock(t *testing.T) {
	tea := &Stock{SKU: "tea"}
	order := &Order{ID: "o1", Stock: func(SKU) StockAPI { return tea }}
	if err := order.Add(t.Context(), "tea", 1); !errors.Is(err, ErrSoldOut) || len(order.Lines) > 0 {
		t.Errorf("got lines %v, error %v; want none, ErrSoldOut", order.Lines, err)
	}
	if err := tea.Restock(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := order.Add(t.Context(), "tea", 1); err != nil || order.Lines["tea"] != 1 {
		t.Errorf("got lines %v, error %v; want one piece", order.Lines, err)
	}
}
