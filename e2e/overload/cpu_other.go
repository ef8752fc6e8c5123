//go:build !unix

package overload

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
