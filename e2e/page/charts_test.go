package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/policy"
)

// A link that names a dependency is opened before the first frame says whether overrides are
// allowed.
func TestALinkToADependencyHasItsOverrides(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{true, false} {
		p := newProgram(t, map[string]policy.Policy{"bank": {}}, dashboard.Config{AllowOverrides: allowed})
		p.load("bank", 3)
		b := newTab(t)
		b.open(p.url + "#d=bank")
		b.until(`document.querySelector("dialog[open]")?.innerText ?? ""`, "Rules in force")
		shown := `String(!!document.querySelector("dialog[open] .override:not([hidden]) [data-action=force_open]"))`
		if allowed {
			b.until(shown, "true")
			b.must(chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(`[data-action=retries_off]`))))
			b.until(tile("bank"), "retries and hedges are switched off (page, 127.0.0.1)")
		} else if b.read(shown) != "false" {
			t.Error("a page that is read-only offers overrides")
		}
	}
}

// holes is the script for how much of the width of a tile's chart is empty, in percent, from
// where the first calls were made to now. A second of 119 is not looked at, at either end.
const holes = `(() => {
	const c = document.querySelector(".tile .spark canvas");
	if (!c) return "no chart";
	const {width, height} = c, px = c.getContext("2d").getImageData(0, 0, width, height).data;
	const drawn = [];
	for (let x = 0; x < width; x++) {
		let ink = false;
		for (let y = 0; y < height * 0.8 && !ink; y++) ink = px[(y * width + x) * 4 + 3] > 40;
		drawn.push(ink);
	}
	const first = drawn.indexOf(true), second = Math.ceil(width / 119);
	if (first < 0) return "nothing is drawn";
	const part = drawn.slice(first, width - second);
	return "holes of " + Math.round(100 * part.filter((ink) => !ink).length / width) + " %, in " + Math.round(100 * part.length / width) + " %";
})()`

// A machine that slept comes back to its stream, which goes on after the last event that it
// saw. What happened in between is in the charts all the same.
func TestAChartHasNoHoleAfterTheStreamWasLost(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{"bank": {}}, dashboard.Config{})
	p.steady("bank", 40)
	var resumed atomic.Int64
	away, back := make(chan struct{}), make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/stream") {
			p.page.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Last-Event-ID") != "" {
			resumed.Add(1)
			select {
			case <-back:
			case <-r.Context().Done():
			}
			p.page.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		context.AfterFunc(p.ctx, cancel)
		go func() {
			select {
			case <-away:
			case <-ctx.Done():
			}
			cancel()
		}()
		p.page.ServeHTTP(w, r.WithContext(ctx))
		panic(http.ErrAbortHandler) // as a connection that breaks
	}))
	t.Cleanup(func() { p.page.Close(); site.CloseClientConnections(); site.Close() })
	b := newTab(t)
	b.open(site.URL + "/debug/gabion/")
	b.until(tile("bank"), "succeeded")
	b.until(`document.getElementById("link").innerText`, "live")
	pass(3 * time.Second)
	close(away)
	b.until(`document.getElementById("link").innerText`, "no news for 8 s")
	if resumed.Load() == 0 {
		t.Fatal("the browser did not resume its stream")
	}
	close(back)
	b.until(`document.getElementById("link").innerText`, "live")
	pass(1500 * time.Millisecond) // the next frame is drawn
	// The stream was away for 7 % of the chart. On a busy machine the calls themselves
	// leave a second out.
	got, missing := b.read(holes), 0
	if _, err := fmt.Sscanf(got, "holes of %d %%", &missing); err != nil || missing > 3 {
		t.Errorf("the chart has %s", got)
	}
	b.mu.Lock()
	b.complaints = nil // the browser says that the stream was lost
	b.mu.Unlock()
}
