package labcmd

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// Files of other systems play by their own rules.
func TestFilesOfOtherSystemsPlay(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"application.yml": "resilience4j.retry.instances:\n  stock: {maxAttempts: 4, waitDuration: 10ms}\n",
		"two.yml":         "resilience4j.retry.instances:\n  stock: {maxAttempts: 4, waitDuration: 10ms}\n  once: {maxAttempts: 1}\n",
		"bad.yml":         "resilience4j.retry.instances:\n  stock: {maxAttempts: -1}\n",
		"none.yml":        "resilience4j.retry.configs:\n  slow: {maxAttempts: 1}\n",
		"gabion.yaml":     "version: 1\ndependencies:\n  db: {retry: off}\n",
		"theirs.yaml":     "version: 1\ndependencies:\n  shop: {retry: off}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const runs = " --replications 1 --seed 1"
	for _, c := range []struct {
		args        string
		code        int
		out, errOut string
	}{
		{"--config resilience4j:application.yml --against gabion.yaml", -1, "resilience4j application.yml", "application.yml: read as resilience4j: 2 keys mean the same"},
		{"--config spring:two.yml --as *=stock --against spring:two.yml --against-as *=once", -1, "resilience4j two.yml", ""},
		{"--config application.yml --against theirs.yaml --as db=stock", 3, "", "such as --against-as db=shop"},
		{"--config two.yml", 3, "", "resilience4j two.yml has no route db; it has once, stock: say which one"},
		{"--config two.yml --as db=x", 3, "", "has no route x"},
		{"--config bad.yml", 1, "", "bad.yml:2:24: resilience4j.retry.instances.stock.maxAttempts: -1 is too small"},
		{"--config none.yml", 3, "", "no route, client or method has a policy"},
		{"--config dapr:gabion.yaml", 3, "", "no route, client or method has a policy"},
		{"--config spring:nowhere.yml", 3, "", "no such file"},
	} {
		if testing.Short() && c.code < 0 && strings.Contains(c.args, "two.yml") {
			continue // long: it runs a scenario
		}
		var out, errOut bytes.Buffer
		code := cli.Run(t.Context(), Run(), append([]string{"error-storm"}, strings.Fields(c.args+runs)...), &out, &errOut)
		if c.code >= 0 && code != c.code || c.code < 0 && code > 1 || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), c.out) || !strings.Contains(errOut.String(), c.errOut) {
			t.Errorf("%s: %d\n%s\n%s", c.args, code, out.String(), errOut.String())
		}
	}
}
