// Package parallel runs pieces of work on several goroutines.
package parallel

import (
	"runtime"
	"sync"
)

// Run calls do for 0 to n-1 with a number of workers, GOMAXPROCS if it is not positive. What has
// not begun when ended is true does not begin. Told, if it is not nil, is called after each piece
// with the number of those that are done, from one goroutine at a time. Run returns when all that
// has begun is done.
//
// Where each piece keeps what it came to in a place of its own, the number of workers and the order
// of ends mean nothing.
func Run(n, workers int, ended func() bool, do func(i int), told func(i, done int)) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var mu sync.Mutex // guards next and done, and orders calls of told
	next, done := 0, 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == n || ended() {
			return 0, false
		}
		next++
		return next - 1, true
	}
	var group sync.WaitGroup
	for range min(workers, n) {
		group.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				do(i)
				if told != nil {
					mu.Lock()
					done++
					told(i, done)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
}
