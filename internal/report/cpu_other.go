//go:build !unix

package report

import "time"

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
