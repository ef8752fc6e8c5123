package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/lab/playground"
)

// compiled compiles the lab for browsers once.
var compiled = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "playground")
	if err != nil {
		return "", err
	}
	stops = append(stops, func() { _ = os.RemoveAll(dir) })
	if err := os.CopyFS(dir, playground.Page()); err != nil {
		return "", err
	}
	return dir, playground.Build(context.Background(), dir)
})

// newPlayground serves the playground as any web server does, and opens it.
func newPlayground(t *testing.T) (*tab, string) {
	t.Helper()
	b := newTab(t)
	dir, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", playground.Policy)
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.open(server.URL + "/")
	b.done()
	return b, server.URL + "/"
}

// done waits until all sides of the last change are drawn.
func (b *tab) done() {
	b.t.Helper()
	b.within(4*patience, `(() => { const d = document.body.dataset; return [...document.querySelectorAll("article")].every(a => a.className === "") && d.done && d.done === d.round ? "done" : document.getElementById("status").textContent })()`, "done")
}

// answer is what the browser's lab answers.
func (b *tab) answer(question string) string {
	b.t.Helper()
	b.read(fmt.Sprintf(`(() => { window.answered = ""; lab.ask(%s).then(a => { window.answered = a.text }); return "" })()`, question))
	return b.within(4*patience, `window.answered`, "{")
}

func TestTheBrowsersLabIsTheNativeOne(t *testing.T) {
	b, _ := newPlayground(t)
	for _, question := range []string{
		`{}`, `{"files": true}`,
		`{"side": "gabion"}`, `{"side": "naive"}`,
		`{"side": "gabion", "world": {"seed": 7, "layers": 3, "trouble": "slow", "hedge": 60}}`,
		`{"side": "aws-adaptive", "world": {"trouble": "limit", "replicas": 3}}`,
		`{"side": "nothing"}`, `{"world": {"attempts": 1000}}`,
	} {
		got, want := b.answer(question), string(playground.Answer(t.Context(), []byte(question)))
		if got != want {
			t.Errorf("%s: the browser's lab answers\n%.300s\nand the native one\n%.300s", question, got, want)
		}
	}
}

func TestThePageShowsWhatTheLabSays(t *testing.T) {
	b, _ := newPlayground(t)
	for _, side := range []string{"gabion", "plain", "naive", "resilience4j"} {
		var want struct{ Totals struct{ Answered float64 } }
		text := playground.Answer(t.Context(), fmt.Appendf(nil, `{"side": %q}`, side))
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		shows := b.read(fmt.Sprintf(`document.querySelector('[data-side=%q] h2').innerText`, side))
		if says := fmt.Sprintf("%.1f %%", 100*want.Totals.Answered); !strings.Contains(shows, says) {
			t.Errorf("%s: the page shows %q, and the lab says %s", side, shows, says)
		}
	}
	t.Log(b.read(`document.getElementById("status").textContent`))
	dir, _ := compiled()
	if info, err := os.Stat(filepath.Join(dir, playground.Program)); err != nil || info.Size() > 5_000_000 {
		t.Errorf("%s: %v, %v; 5 MB are the limit", playground.Program, info.Size(), err)
	}
}
