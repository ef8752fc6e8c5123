//go:build !linux

package boltstore

func limitSize() {}
