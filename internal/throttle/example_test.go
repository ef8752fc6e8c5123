package throttle_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/throttle"
)

func ExampleThrottle_Admit() {
	t := throttle.Make(2 * time.Minute)
	for range 10 { // the dependency accepts everything
		t.Admit(0, 2)
		t.Accept(0, 0)
	}
	for i := 1; i <= 13; i++ { // and then nothing
		if p := t.Admit(0, 2); p > 0 {
			fmt.Printf("request %d is rejected with probability %.3f\n", i, p)
		}
	}
	// Output:
	// request 12 is rejected with probability 0.045
	// request 13 is rejected with probability 0.087
}

func ExampleThrottle_Probability() {
	t := throttle.Make(2 * time.Minute)
	for i := range 100 {
		t.Request(0)
		if i%4 == 0 { // the dependency accepts a quarter
			t.Accept(0, 0)
		}
	}
	fmt.Printf("%.3f\n", t.Probability(0, 2))
	// Output:
	// 0.495
}
