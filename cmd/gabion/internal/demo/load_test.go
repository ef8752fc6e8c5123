package demo

import (
	"slices"
	"testing"
	"time"
)

func TestOrdersAreAFunctionOfTheSeed(t *testing.T) {
	a, b, c := Orders(7, 10*time.Second), Orders(7, 10*time.Second), Orders(8, 10*time.Second)
	if !slices.Equal(a, b) {
		t.Error("the same seed gave other orders")
	}
	same := func(x, y Order) bool { return x.At == y.At }
	if slices.EqualFunc(a, c, same) {
		t.Error("another seed gave the same arrivals")
	}
}

func TestEveryOrderArrivesInItsSlot(t *testing.T) {
	const slot = time.Second / load
	orders := Orders(1, 3*time.Second)
	if len(orders) != 3*load {
		t.Fatalf("%d orders in 3 s", len(orders))
	}
	for i, o := range orders {
		if o.Number != i || o.At < time.Duration(i)*slot || o.At >= time.Duration(i+1)*slot {
			t.Fatalf("order %d arrives as %d at %s", i, o.Number, o.At)
		}
		if o.Amount < 100 || o.Amount >= 10_000 {
			t.Fatalf("order %d is over %d", i, o.Amount)
		}
	}
}
