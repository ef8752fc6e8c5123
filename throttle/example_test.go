package throttle_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/throttle"
)

func ExampleThrottle_Probability() {
	t := throttle.Make(2*time.Minute, 1)
	for i := range 100 {
		t.Request(0, 0)
		if i%4 == 0 { // the dependency accepts a quarter
			t.Accept(0, 0, 0)
		}
	}
	fmt.Printf("%.3f\n", t.Probability(0, 2))
	// Output:
	// 0.495
}
