//go:build !race

package gabion_test

const raceEnabled = false
