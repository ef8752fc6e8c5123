//go:build race

package gabionotel_test

const raceEnabled = true
