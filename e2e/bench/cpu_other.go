//go:build !unix

package bench

// cpu is not known here.
func cpu() int64 { return 0 }
