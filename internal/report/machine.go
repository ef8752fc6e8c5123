package report

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
)

// LoadAverage is the machine's load average now, over one, five and fifteen minutes, or empty if it is not known.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	f := strings.Fields(string(text))
	return strings.Join(f[:min(3, len(f))], " ")
}

// Processor is the name of the machine's processor.
func Processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// Alone makes a command that sees this module's go.mod and no workspace, whose other modules could
// ask for other versions.
func Alone(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...) // #nosec G204 -- the callers name it
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}
