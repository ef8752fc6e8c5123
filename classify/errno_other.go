//go:build !unix && !windows

package classify

import "github.com/gabion-go/gabion/policy"

// errno knows nothing where errors have no numbers of their own; dial errors,
// timeouts and broken-off connections are known without.
func errno(error) (policy.Class, bool) { return 0, false }
