//go:build race

package gabionmsg_test

const raceEnabled = true
