package demo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

// dependency is the name that the demo looks for in a file.
const dependency = "payments"

// rules are a policy and where it comes from.
type rules struct {
	policy policy.Policy
	text   string // as it is printed
	from   string
}

// loadRules reads the policy to try. When no file is named it is the zero policy,
// which means gabion's defaults: nothing here is fitted to the plan. The exit code is
// that of the error.
func loadRules(path string) (rules, int, error) {
	if path == "" {
		return rules{text: "Nothing is written: every value is the default. --config FILE tries another.\n", from: "its defaults"}, cli.ExitOK, nil
	}
	file, err := config.Load(path)
	if found := (config.Findings)(nil); errors.As(err, &found) {
		return rules{}, cli.ExitFindings, fmt.Errorf("--config %s has mistakes:\n%w", path, err)
	}
	if err != nil {
		return rules{}, cli.ExitUsage, fmt.Errorf("--config: %w", err)
	}
	name, err := pick(file)
	if err != nil {
		return rules{}, cli.ExitFindings, err
	}
	return rules{file.Policies[name], deviations(file, name), name + " in " + path}, cli.ExitOK, nil
}

// pick finds the policy to try: that of payments, or the file's only one.
func pick(file *config.File) (string, error) {
	names := file.Names()
	if _, there := file.Policies[dependency]; there {
		return dependency, nil
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("--config %s names %d dependencies and none is %q: %s", file.Name, len(names), dependency, few(names))
}

// few lists names, and not more than anybody would read.
func few(names []string) string {
	const most = 10
	switch {
	case len(names) == 0:
		return "add one"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// deviations are the settings that are not the default, with their places.
func deviations(file *config.File, name string) string {
	var b strings.Builder
	for _, s := range file.Explain(name) {
		if s.Source != "default" {
			fmt.Fprintf(&b, "%s %s %s\n", left(s.Path, 24), left(s.Value, 12), s.Source)
		}
	}
	fmt.Fprintf(&b, "The rest are defaults: gabion config print -f %s\n", file.Name)
	return b.String()
}
