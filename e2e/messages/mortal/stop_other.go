//go:build !unix

package mortal

// stop does nothing: there are no such signals.
func stop() {}
