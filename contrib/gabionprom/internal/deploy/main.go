// Command deploy writes the documents, the alert rules and the dashboard that are made
// from the catalog of metrics. It takes the repository's directory; go generate runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// files are what is made, by name from the root of the repository.
func files() map[string][]byte {
	return map[string][]byte{
		"docs/metrics.md":               metricsDoc(),
		"docs/alerts.md":                alertsDoc(),
		"deploy/prometheus/alerts.yaml": rulesFile(),
		"deploy/grafana/gabion.json":    dashboardFile(),
	}
}

func write(root string) error {
	for name, text := range files() {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // part of a checkout, for everybody to read
			return err
		}
		if err := os.WriteFile(name, text, 0o644); err != nil { //nolint:gosec // likewise
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: deploy DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
