package natsmsg

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/messages/inbox"
)

// leastServer is the oldest nats-server that answers the requests of package jetstream, and
// reasons the first that reads a reason behind TERM. An older one ignores the whole answer.
var (
	leastServer = [3]int{2, 9, 0}
	reasons     = [3]int{2, 10, 4}
)

// parseVersion reads a server's version, such as 2.10.4 or 2.12.0-RC.1.
func parseVersion(text string) (v [3]int, ok bool) {
	text, _, _ = strings.Cut(text, "-")
	parts := strings.Split(text, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

func older(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// checkServer refuses a server that is too old. One that does not say its version may be fit.
func checkServer(version string) error {
	if v, ok := parseVersion(version); ok && older(v, leastServer) {
		return fmt.Errorf("nats-server %s is too old: %d.%d.%d is the oldest that works", version, leastServer[0], leastServer[1], leastServer[2])
	}
	return nil
}

// termination is what ends a message that is a dead letter, for a server of that version.
func termination(version string, why inbox.Cause) []byte {
	if v, ok := parseVersion(version); !ok || older(v, reasons) {
		return term
	}
	return append(append(term[:len(term):len(term)], ' '), why...)
}
