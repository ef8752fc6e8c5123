package configcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/policy"
)

// running is a program whose payments have made three retries, two of which helped, and
// whose users are never sent again. Its page is at /debug/gabion/.
func running(t *testing.T) (address string) {
	t.Helper()
	registry, err := gabion.NewRegistry(map[string]policy.Policy{
		"payments": {Safe: true, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Const(time.Millisecond)}},
		"users":    {Retry: policy.Retry{Attempts: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/gabion/", dashboard.Handler(registry))
	mux.HandleFunc("/hangs/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/text/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) })
	mux.HandleFunc("/newer/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"version":2}`)) })
	mux.HandleFunc("/rows/", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"version":1,"tiles":[{"name":"payments","breaker":"breaker: it opens at 57 in a row (not 20)"}]}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	payments, err := registry.Get("payments")
	if err != nil {
		t.Fatal(err)
	}
	for _, failures := range []int{0, 0, 0, 0, 0, 0, 1, 1, 2} {
		payments.Run(t.Context(), func(context.Context) error {
			if failures--; failures >= 0 {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
	}
	return server.URL
}

func TestExplainSaysWhatThePageSays(t *testing.T) {
	url := running(t)
	path := file(t, sample)
	const helped = "now: payments: "
	const room = "Room: 100 attempts at once, and up to 200 may wait: 0 out, 0 waiting. In 30 s all found a slot"
	const sentence = "Retries are sent while they help: 2 of the last 3 retries helped"
	for _, c := range []struct {
		fact, args  string
		code        int
		out, errOut string
	}{
		{"the whole file", "--live " + url + "/debug/gabion/", 0, sentence, ""},
		{"what is left", "--live " + url + "/debug/gabion/ payments.retry.budget", 0, helped, ""},
		{"how many calls find room", "--live " + url + "/debug/gabion/ payments", 0, sentence + ". " + room, ""},
		{"a breaker that another row opens", "--live " + url + "/rows/ payments", 0, "nothing is sent again. Breaker: it opens at 57 in a row (not 20)", ""},
		{"an address without the slash", "--live=" + url + "/debug/gabion payments", 0, sentence, ""},
		{"one that is never sent again", "users --live " + url + "/debug/gabion/", 0, "now: users: it has no budget there: nothing is sent again", ""},
		{"not an address", "--live localhost:8080/debug/gabion/", 2, "", `"localhost:8080/debug/gabion/" is no address of a page: it begins with http:// or https://`},
		{"another scheme", "--live ftp://localhost/", 2, "", "is no address of a page"},
		{"another handler", "--live " + url + "/", 3, "", "404 Not Found: name the address of a page of package dashboard"},
		{"another answer", "--live " + url + "/text/", 3, "", "gives no answer of a page of gabion: invalid character 'h'"},
		{"a newer page", "--live " + url + "/newer/", 3, "", "answers in version 2"},
		{"no program", "--live http://127.0.0.1:1/", 3, "", "refused"},
		{"a page that hangs", "--live " + url + "/hangs/", 3, "", "deadline exceeded"},
	} {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if c.fact == "a page that hangs" {
			ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
		}
		var out, errOut bytes.Buffer
		code := cli.Run(ctx, Command(), strings.Fields("explain -f "+path+" "+c.args), &out, &errOut)
		cancel()
		said := strings.Join(strings.Fields(out.String()), " ")
		if code != c.code || !strings.Contains(said, c.out) || !strings.Contains(errOut.String(), c.errOut) || c.code != 0 && out.Len() > 0 {
			t.Errorf("%s: %d\n%s\n%s", c.fact, code, &out, &errOut)
		}
		narrow(t, out.String())
	}
	var out, errOut bytes.Buffer
	cli.Run(t.Context(), Command(), []string{"explain", "-f", path, "--live", url + "/debug/gabion/", "--json"}, &out, &errOut)
	var got struct{ Live []note }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Live) != 2 || got.Live[0].Dependency != "payments" || !strings.HasSuffix(got.Live[0].Text, sentence+". "+room) {
		t.Errorf("%v, %+v\n%s%s", err, got, &out, &errOut)
	}
}

// A page of another program is not silence.
func TestExplainKnowsThePageOfAnotherProgram(t *testing.T) {
	url := running(t) + "/debug/gabion/"
	for text, want := range map[string]string{
		"paymnets: {}":          "has no dependency paymnets: it has payments, users; is it payments?",
		"stock: {}, search: {}": "has no dependency search, stock: it has payments, users\n",
	} {
		var out, errOut bytes.Buffer
		code := cli.Run(t.Context(), Command(), []string{"explain", "-f", file(t, "version: 1\ndependencies: {"+text+"}\n"), "--live", url}, &out, &errOut)
		if code != 3 || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: %d\n%s%s", text, code, &out, &errOut)
		}
	}
	var out, errOut bytes.Buffer
	code := cli.Run(t.Context(), Command(), []string{"explain", "-f", file(t, "version: 1\ndependencies: {payments: {}, stock: {}}\n"), "--live", url}, &out, &errOut)
	if want := "now: stock: the page has no dependency of this name\n"; code != 0 || !strings.Contains(out.String(), want) {
		t.Errorf("%d\n%s%s", code, &out, &errOut)
	}
}
