package site

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
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

func TestTheSiteInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the site")
	}
	site := build(t)
	ctx := browser(t)
	server := httptest.NewServer(http.FileServerFS(site))
	defer server.Close()

	must(t, chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL+"/index.html")))
	_, err := chromedp.Run(ctx, chromedp.Poll[bool](`(() => {
		const input = document.querySelector(".md-search__input");
		input.focus();
		input.value = "bulkhead";
		input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
		return document.querySelector(".md-search-result__list").textContent.includes("Bulkhead");
	})()`, chromedp.WithPollingInterval(200*time.Millisecond), chromedp.WithPollingTimeout(time.Minute)))
	if err != nil {
		t.Errorf("a search for bulkhead finds nothing of it: %v", err)
	}

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
