package site

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/gabion-go/gabion/e2e/internal/chromium"
	"github.com/gabion-go/gabion/internal/testservers"
)

// browser starts Chromium, or skips the test where it is missing.
func browser(t *testing.T) context.Context {
	t.Helper()
	ctx := t.Context()
	if end, is := t.Deadline(); is {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-20*time.Second)) // to say what did not happen
		t.Cleanup(cancel)
	}
	ctx, stop, err := chromium.Start(ctx)
	if errors.Is(err, chromium.ErrMissing) {
		testservers.Missing(t, "%v", err)
	}
	must(t, err)
	t.Cleanup(stop)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read evaluates a script in the page.
func read[T any](t *testing.T, ctx context.Context, script string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	must(t, err)
	return value
}

// typed waits until the index is there, types a word in the search, and waits for an entry of the list.
const typed = `(async () => {
	const list = document.querySelector(".md-search-result__list")
	await fetch("search/search_index.json").then(r => r.text())
	const input = document.querySelector(".md-search__input")
	input.value = "bulkhead"
	input.focus()
	input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}))
	await fetch("typed")
	const found = () => list.textContent.includes("Bulkhead")
	await new Promise(done => {
		new MutationObserver(() => found() && done()).observe(list, {childList: true, subtree: true})
		if (found()) done()
	})
	return true
})()`

// searches looks for a word that is typed before the worker of the search runs, and after that.
func searches(t *testing.T, ctx context.Context, site fs.FS) {
	t.Helper()
	files, late := http.FileServerFS(site), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/typed":
			select {
			case <-late:
			default:
				close(late)
			}
			return
		case strings.HasPrefix(r.URL.Path, "/assets/javascripts/workers/"):
			<-late
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, when := range []string{"before", "after"} {
		must(t, chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL+"/index.html")))
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](typed, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatalf("a search for bulkhead, typed %s the worker has begun, finds nothing of it: %v", when, err)
		}
	}
}

func TestTheSiteInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the site")
	}
	site := build(t)
	ctx := browser(t)
	server := httptest.NewServer(http.FileServerFS(site))
	defer server.Close()
	searches(t, ctx, site)

	for _, c := range []struct {
		scheme, want string
		width        int64
	}{{"light", "default", 1280}, {"dark", "slate", 1280}, {"light", "default", 390}, {"dark", "slate", 390}} {
		must(t, chromedp.Do(ctx, chromedp.EmulateViewport(c.width, 900)))
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.scheme}}})
		must(t, err)
		for _, page := range []string{"/index.html", "/lab.html", "/install.html", "/defaults.html"} {
			must(t, chromedp.Do(ctx, chromedp.Navigate(server.URL+page)))
			read[bool](t, ctx, `(localStorage.clear(), true)`) // the scheme of the page before
			must(t, chromedp.Do(ctx, chromedp.Navigate(server.URL+page)))
			if got := read[string](t, ctx, `document.body.dataset.mdColorScheme`); got != c.want {
				t.Errorf("%s, %s: the scheme is %q, want %q", page, c.scheme, got, c.want)
			}
			if wide := read[int64](t, ctx, `document.documentElement.scrollWidth`); wide > c.width {
				t.Errorf("%s is %d wide where %d are visible", page, wide, c.width)
			}
		}
	}
}
