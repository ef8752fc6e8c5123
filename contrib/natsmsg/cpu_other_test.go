//go:build !unix

package natsmsg

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
