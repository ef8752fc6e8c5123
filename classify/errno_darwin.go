package classify

import (
	"syscall"

	"github.com/gabion-go/gabion/policy"
)

// A write to a connection that the other side is tearing down fails like this
// instead of with EPIPE, at times (go.dev/issue/51538).
func init() { errnos[syscall.EPROTOTYPE] = policy.ClassNetwork }
