//go:build !linux

package boltstore

// warnings knows nothing about other systems' file systems.
func warnings(string) []string { return nil }
