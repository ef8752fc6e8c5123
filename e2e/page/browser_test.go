package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/gabion-go/gabion/e2e/internal/chromium"
	"github.com/gabion-go/gabion/internal/testservers"
)

// browser is shared by the tests: it takes half a second to start.
var browser = sync.OnceValues(func() (context.Context, error) {
	ctx, stop, err := chromium.Start(context.Background())
	if err == nil {
		stops = append(stops, stop)
	}
	return ctx, err
})

var stops []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for i := len(stops) - 1; i >= 0; i-- {
		stops[i]()
	}
	os.Exit(code)
}

// A tab is a tab of the browser. What its console says fails the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

func newTab(t *testing.T) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("long: a browser looks at a page for seconds")
	}
	parent, err := browser()
	if errors.Is(err, chromium.ErrMissing) {
		testservers.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent)
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, text := range b.complaints {
			t.Error("the browser complains: " + text)
		}
	})
	b.must(chromedp.Do(ctx))
	b.must(chromedp.Listen(ctx, b.hear))
	return b
}

// hear notes errors, and what the content security policy kept out.
func (b *tab) hear(ev any) {
	text := ""
	switch e := ev.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			text = e.Entry.Text + " " + e.Entry.URL
		}
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprint("console.", e.Type)
	}
	if text != "" {
		b.mu.Lock()
		b.complaints = append(b.complaints, text)
		b.mu.Unlock()
	}
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) size(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.must(chromedp.Do(b.ctx, chromedp.EmulateViewport(width, height)))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.must(err)
}

func (b *tab) open(url string) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.Navigate(url)))
}

// read evaluates a script to a text.
func (b *tab) read(script string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](script))
	b.must(err)
	return text
}

// patience is how long a test waits for what must come. A slow machine needs seconds.
const patience = 30 * time.Second

// until waits for a script to say something with that in it.
func (b *tab) until(script, want string) string {
	b.t.Helper()
	return b.within(patience, script, want)
}

// within is until with a patience of its own.
func (b *tab) within(patience time.Duration, script, want string) string {
	b.t.Helper()
	got := ""
	for limit := time.Now().Add(patience); time.Now().Before(limit); pass(50 * time.Millisecond) {
		if got = b.read(script); strings.Contains(got, want) {
			return got
		}
	}
	b.t.Fatalf("%s is %q, want %q in it", script, got, want)
	return ""
}

// tile is the script for the text of a dependency's tile, its state first.
func tile(name string) string {
	return fmt.Sprintf(`(() => { const e = document.querySelector('[data-name=%q]'); return e ? e.dataset.state + " | " + e.innerText.replaceAll("\n", " ") : "" })()`, name)
}

func (b *tab) shot(file string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	b.must(err)
	if !bytes.HasPrefix(png, []byte("\x89PNG")) || len(png) < 5_000 {
		b.t.Errorf("%s: a picture of %d bytes shows nothing", file, len(png))
	}
	if dir := os.Getenv("GABION_PAGE_SHOTS"); dir != "" {
		b.must(os.WriteFile(dir+"/"+file, png, 0o644))
	}
}

// pass lets time pass: browsers and servers here are real, and know no other.
func pass(d time.Duration) { <-time.After(d) }
