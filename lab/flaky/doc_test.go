package flaky_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/lab/flaky"
)

// The plan of docs/flaky.md is one.
func TestThePlanOfTheGuide(t *testing.T) {
	doc, err := os.ReadFile("../../docs/flaky.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "<!-- plan -->\n```yaml\n")
	text, _, ok := strings.Cut(rest, "```\n<!-- /plan -->")
	p, err := flaky.Parse("provider.yaml", []byte(text))
	if err != nil || !ok || len(p.Faults()) != 2 {
		t.Errorf("%v\n%s", err, text)
	}
}

func Example() {
	plan, err := flaky.Parse("provider.yaml", []byte(`version: 1
service: {honours_keys: true}
faults: [{kind: errors, at: 0s, for: 1h, status: 429, retry_after: 2s}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := flaky.New(plan, flaky.Options{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	on := httptest.NewServer(server)
	defer on.Close()
	resp, err := http.Get(on.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, resp.Header.Get("Retry-After"), server.Counts().Requests)
	// Output: 429 2 1
}
