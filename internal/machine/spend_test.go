package machine

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

func TestWhatAnswersCostIsAddedUp(t *testing.T) {
	r, err := Compile(policy.Policy{Prices: []policy.Price{{Amount: 3, Money: "usd", Per: 1e6, Unit: "input"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(0, r, Setup{})
	if got := s.Stats(0).Spent; got != nil {
		t.Errorf("before any answer %v was spent", got)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				s.Spent([]policy.Spend{{Unit: "input", Amount: 1000, Answers: 1}, {Unit: "requests", Amount: 1, Answers: 1}})
			}
		})
	}
	wg.Wait()
	got := s.Stats(0).Spent
	want := []policy.Spend{{Unit: "input", Amount: 800_000, Answers: 800}, {Unit: "requests", Amount: 800, Answers: 800}, {Unit: "usd", Amount: 2.4, Answers: 800}}
	same := slices.EqualFunc(got, want, func(a, b policy.Spend) bool {
		return a.Unit == b.Unit && math.Abs(a.Amount-b.Amount) < 1e-9 && a.Answers == b.Answers
	})
	if !same {
		t.Errorf("got %v, want %v", got, want)
	}
	got[0].Amount = 0
	if s.Stats(0).Spent[0].Amount == 0 {
		t.Error("what Stats returns is the State's own")
	}
}

// However many units answers name, what is kept is bounded, and nothing that can't be meant is added.
func TestUnitsAreBounded(t *testing.T) {
	s := NewState(0, compile(policy.Policy{}), Setup{})
	for i := range 100 {
		s.Spent([]policy.Spend{{Unit: fmt.Sprintf("unit-%02d", i), Amount: 1, Answers: 1}, {Unit: "unit-00", Amount: math.NaN()}, {Unit: "unit-00", Amount: -5}, {Unit: "unit-00", Amount: math.Inf(1)}})
	}
	got := s.Stats(0).Spent
	if len(got) != maxSpends || got[0].Unit != "unit-00" || got[0].Amount != 1 {
		t.Errorf("%d units, the first %+v", len(got), got[0])
	}
}
