// Gabionvet finds mistakes in Go code that turn a small failure of a dependency into an
// outage. It runs by itself, or for go vet:
//
//	gabionvet ./...
//	go vet -vettool=$(which gabionvet) ./...
//
// gabionvet help lists the rules; each is also a flag: gabionvet -waitwithoutjitter ./...
// runs that rule alone. The status is 0 without findings, 3 with some, and 1 if the code
// can't be read; that of go vet is 1 for both.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/gabion-go/gabion/gabionvet"
)

func main() { multichecker.Main(gabionvet.Analyzers...) }
