// Package stores measures the stores of idempotency records side by side: each beside
// what the same work costs by hand on the same server or disk, in one run.
//
//	go run ./report          # writes docs/stores.md, as make bench does
//	go run ./report -quick -out /tmp/s.md -raw /tmp/s.json
//
// The ordinary tests run all of it once, for a moment, to see that it works.
package stores
