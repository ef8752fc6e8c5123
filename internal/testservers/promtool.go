package testservers

import (
	"os/exec"
	"testing"
)

// Promtool returns the path of promtool, which reads and tests Prometheus' rules. It is no
// server, but as hard to do without.
func Promtool(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		Missing(t, "promtool is not installed: it is in the package prometheus: %v", err)
	}
	return path
}
