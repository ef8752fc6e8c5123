//go:build !linux || !amd64

package main

import (
	"fmt"
	"runtime"
)

func count(string) (cost, error) {
	return cost{}, fmt.Errorf("%w: instructions are counted on linux/amd64 only, and this is %s/%s", errUnavailable, runtime.GOOS, runtime.GOARCH)
}

func repeat(*kase) {}
