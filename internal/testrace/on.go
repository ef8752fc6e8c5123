//go:build race

package testrace

// Enabled says that the program was built for the race detector.
const Enabled = true
