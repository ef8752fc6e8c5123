package latency_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/latency"
)

func ExampleSketch_Quantile() {
	sketch := latency.New(time.Minute, 1)
	for i := range 100 {
		sketch.Record(0, 0, time.Duration(i+1)*time.Millisecond)
	}
	d, n := sketch.Quantile(0, 0.95)
	fmt.Println(d.Round(5*time.Millisecond), "of", n)
	// Output:
	// 95ms of 100
}
