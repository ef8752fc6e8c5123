package budget_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/budget"
)

func ExampleWindow() {
	w := budget.MakeWindow(10*time.Second, 1)
	rules := budget.NewRules(0.1, 0, 10*time.Second)
	for range 20 {
		w.Deposit(0, 0)
	}
	first, ok := w.TryWithdraw(0, rules)
	fmt.Println(ok, w.Level(0, rules))
	_, ok = w.TryWithdraw(0, rules)
	fmt.Println(ok, w.Level(0, rules))
	_, ok = w.TryWithdraw(0, rules)
	fmt.Println(ok)
	w.Refund(0, first)
	fmt.Println(w.Level(0, rules))
	// Output:
	// true 1
	// true 0
	// false
	// 1
}

func ExampleBucket() {
	var b budget.Bucket
	rules := budget.NewBucketRules(2, 1, 0.5)
	fmt.Println(b.TryWithdraw(rules), b.TryWithdraw(rules), b.TryWithdraw(rules))
	b.Refill(rules)
	b.Refill(rules)
	fmt.Println(b.TryWithdraw(rules))
	// Output:
	// true true false
	// true
}
