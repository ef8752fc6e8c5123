// Package upstream runs other projects' own tests with and without gabion in between. Their
// sources are taken from GOROOT and from modules when it runs. `make upstream` runs it.
//
// A project is one Suite in a file of its own, and a line in the table of suites. known.txt lists the
// tests that do not pass with gabion, each with the reason.
package upstream
