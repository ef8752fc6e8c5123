//go:build race

package gabiongrpc_test

const raceEnabled = true
