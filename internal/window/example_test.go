package window_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

func ExampleWindow() {
	w := window.Make(10*time.Second, 10)
	now := clock.Instant(0)

	w.Add(now, 1, 0, 0)                  // one good call
	w.Add(now.Add(time.Second), 1, 1, 1) // one slow failure
	fmt.Println(w.Sum(now.Add(9 * time.Second)))
	fmt.Println(w.Sum(now.Add(10 * time.Second)))
	// Output:
	// {2 1 1}
	// {1 1 1}
}
