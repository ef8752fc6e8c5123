// Package foreign shows the context of an attempt to code that gabion's authors
// did not write: what a library makes of a context is seen only by running it.
package foreign
