//go:build !unix && !windows

package classify

import "github.com/gabion-go/gabion/policy"

// number stands for nothing where errors have no numbers of their own; dial
// errors, timeouts and broken-off connections are known without.
type number uint

func (number) Error() string { return "error number" }

var errnos map[number]policy.Class
