// Package redrives runs dead letters again while consumers are killed, and counts what came of
// them.
package redrives
