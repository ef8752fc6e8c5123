package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// One program in every state that there is. Each state is reached by calls to a real server,
// or by hand, and read back from what the page shows.
func TestEveryStateIsShown(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{
		"closed": {}, "never-called": {},
		"open":         {Retry: noRetry, Breaker: half},
		"open-calls":   {Retry: noRetry, Breaker: policy.Breaker{MinCalls: 10, FailureRate: 0.5, Open: 10 * time.Minute, OpenCalls: 8}},
		"half-open":    {Retry: noRetry, Breaker: policy.Breaker{Consecutive: 5, Open: 20 * time.Millisecond, Probes: 1, ProbeTimeout: time.Minute}, Timeout: policy.Timeout{Attempt: time.Minute, Call: policy.Off}},
		"forced-open":  {},
		"disabled":     {},
		"observe-only": {Retry: noRetry, Breaker: half},
		"budget":       {Retry: quick, Breaker: noBreaker},
		"bulkhead":     {Bulkhead: policy.Bulkhead{Limit: 4, Queue: 2, QueueTimeout: time.Minute}, Timeout: policy.Timeout{Attempt: time.Minute, Call: policy.Off}},
		"throttle":     {Retry: noRetry, Breaker: noBreaker, Throttle: policy.Throttle{K: 1.1}},
		"rate-limit":   {RateLimit: policy.RateLimit{Rate: 2, MaxWait: policy.Off}},
		"paced":        {Retry: noRetry, Pace: policy.Pace{Max: 10 * time.Minute}, Timeout: policy.Timeout{Call: 2 * time.Second, Attempt: time.Second}},
		"retries-off":  {},
		"hedged":       {Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}},
		"no-breaker":   {Breaker: noBreaker},
	}, dashboard.Config{Title: "all states"})
	reach(p)

	b := newTab(t)
	b.size(1440, 1000, false)
	b.open(p.url)
	for name, want := range map[string][]string{
		"closed":       {"closed | ", "breaker closed", "last 30 s: ", "succeeded", "100 %", "1.00×", "timeout 4.0 s", "of 100"},
		"never-called": {"never_called | ", "never called yet"},
		"open":         {"open | ", "open since ", " s): failure 100 % ≥ 50 % of 10 calls", "next probe in", "refuses ", "server 503 ×10", "refused here"},
		"open-calls":   {"open | ", "probes after 3 refused calls, at the latest in "},
		"half-open":    {"half_open | ", "5 failures in a row", "probing: 0 answers, 0 failed, 1 out"},
		"forced-open":  {"forced_open | ", "forced open by hand (ann)", "ends in", "refused here"},
		"disabled":     {"disabled | ", "disabled by hand (ann)", "ends in", "succeeded"},
		"observe-only": {"observe_only | ", "only observing by hand (ann)", "failed"},
		"budget":       {"no_breaker | ", "not sent: the budget is spent", "0 left", "0.3 × 0 successes in 1 s (1 at least), less those sent"},
		"bulkhead":     {"closed | ", "4 of 4, 2 wait", "turned away: no slot is free (limit 4, 2 queued)"},
		"throttle":     {"refused by the throttle", "accepted, k 1.1"},
		"rate-limit":   {"refused by the rate limit"},
		"paced":        {"the dependency asked for time", "throttled 429"},
		"retries-off":  {"retries and hedges are switched off (ann)", "back in"},
		"hedged":       {"succeeded after a retry or hedge"},
		"no-breaker":   {"no_breaker | ", "succeeded"},
	} {
		for _, text := range want {
			b.until(tile(name)+`.replaceAll("\u00a0", " ")`, text)
		}
	}
	b.until(`document.getElementById("summary").innerText`, "in trouble")
	b.until(`document.getElementById("key").innerText`, "refused here")
	b.shot("states.png")
	if n := b.read(`String(document.documentElement.scrollWidth - innerWidth)`); n != "0" {
		t.Errorf("the page is %s px too wide", n)
	}
}

// reach brings every dependency into its state, and goes on calling, since the page tells
// of the last half minute alone.
func reach(p *program) {
	for _, name := range []string{"open", "observe-only", "budget", "throttle", "half-open"} {
		p.servers[name].do(answers(503))
	}
	p.servers["open-calls"].do(answers(503))
	p.load("open-calls", 11)
	p.load("half-open", 5)
	p.servers["half-open"].do(hangs)
	time.AfterFunc(50*time.Millisecond, func() { p.atOnce("half-open", 1) }) // the open time is over
	p.override("forced-open").ForceOpen(10 * time.Minute)
	p.override("disabled").Disable(10 * time.Minute)
	p.override("observe-only").ObserveOnly(10 * time.Minute)
	p.load("retries-off", 1)
	p.dependency("retries-off").Retries().By("ann").Stop(10 * time.Minute)
	p.servers["bulkhead"].do(hangs)
	p.servers["paced"].do(comeBackIn(600))
	hang := atomic.Bool{}
	p.servers["hedged"].do(func(w http.ResponseWriter, r *http.Request) {
		if hang.CompareAndSwap(true, false) {
			hangs(w, r)
		}
	})
	calls := func() {
		for name, n := range map[string]int{
			"closed": 30, "open": 30, "forced-open": 5, "disabled": 5, "observe-only": 20, "budget": 5, "throttle": 40, "rate-limit": 5,
			"hedged": 20, "no-breaker": 5,
		} {
			p.load(name, n)
		}
		hang.Store(true)
		p.load("hedged", 1)
		p.atOnce("paced", 1)
		p.atOnce("bulkhead", 10)
	}
	calls()
	p.calls.Go(func() {
		for tick := time.NewTicker(3 * time.Second); p.ctx.Err() == nil; {
			select {
			case <-tick.C:
				calls()
			case <-p.ctx.Done():
			}
		}
	})
}

// override returns the breaker of a dependency's host, which is there once it was called.
func (p *program) override(name string) gabion.Breaker {
	p.load(name, 1)
	d := p.dependency(name)
	b, ok := d.Breaker(d.Stats().Partitions[0].Name)
	if !ok {
		p.t.Fatal("no breaker for " + name)
	}
	return b.By("ann")
}

// An operator clicks: the breaker is forced open with an end, calls are refused, and the page says who
// did it; then it is closed again.
func TestOverrideByClick(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{"bank": {}}, dashboard.Config{AllowOverrides: true})
	p.load("bank", 3)
	b := newTab(t)
	b.open(p.url)
	b.until(tile("bank"), "closed | ")
	b.must(chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(`[data-name=bank] .name`))))
	b.until(`document.querySelector("dialog[open] .override:not([hidden])")?.innerText ?? ""`, "Force open")
	ask := func() {
		b.must(chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(`[data-action=force_open]`))))
	}
	button := `document.querySelector("[data-action=force_open]").innerText`
	ask()
	b.until(button, "Really force open for 5 min?")
	b.until(`document.querySelector("[data-action=force_open]:not(.asks)")?.innerText ?? ""`, "Force open") // five seconds later
	if err := p.get(p.client("bank"), "bank"); err != nil {
		t.Errorf("one click stopped the calls: %v", err)
	}
	ask()
	b.until(button, "Really force open for 5 min?")
	ask()
	b.until(`document.querySelector("dialog .override [role=status]").innerText`, "force open: ")
	b.until(tile("bank"), "forced open by hand (page, 127.0.0.1)")
	if err := p.get(p.client("bank"), "bank"); !errors.Is(err, policy.BreakerOpen) {
		t.Errorf("a call got %v, want it refused", err)
	}
	b.until(`document.querySelector("dialog .news").innerText`, "closed → forced_open: by hand")
	b.must(chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(`[data-action=reset]`))))
	b.until(tile("bank"), "closed | ")
	if err := p.get(p.client("bank"), "bank"); err != nil {
		t.Errorf("a call got %v", err)
	}
	b.must(chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS(`[data-action=retries_off]`))))
	b.until(tile("bank"), "retries and hedges are switched off (page, 127.0.0.1)")
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent("\x1b")))
	b.until(`String(document.querySelector("dialog[open]") === null) + location.hash`, "true")
}

// What failed can be read, decision by decision, and the rules with where they come from.
func TestDetailIsRead(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{"bank": {Retry: quick, Breaker: half}}, dashboard.Config{
		Settings: func(name string) []policy.Setting {
			return []policy.Setting{{Path: "retry.attempts", Value: "3", Source: name + ".yaml:12"}}
		},
	})
	p.load("bank", 5)
	p.servers["bank"].do(answers(503))
	p.load("bank", 20)
	b := newTab(t)
	b.open(p.url + "#d=bank")
	text := `(document.querySelector("dialog[open]")?.innerText ?? "")`
	for _, want := range []string{"Calls worth reading", "Rules in force", "bank.yaml:12", "Not sent, and why", "breaker open ×", "What happened", "closed → open"} {
		b.until(text, want)
	}
	if strings.Contains(b.read(text), "Force open") {
		t.Error("a page that is read-only offers overrides")
	}
	b.until(`(() => { document.querySelectorAll("dialog details").forEach((d) => { d.open = true }); return `+text+` })()`, "attempt 1 failed after")
	b.until(text, "the call ended: breaker_open")
	b.until(`document.querySelector("dialog .call .number").innerText + " " + document.querySelector("dialog .call code").innerText + " " + document.querySelector("dialog .call").dataset.call`, "gabion explain --call ")
	if ok := b.read(`String([...document.querySelectorAll("dialog .call")].every((c) => c.querySelector("summary").innerText.includes("#" + c.dataset.call)))`); ok != "true" {
		t.Error("a call worth reading has no number")
	}
	b.until(text, "retry.")
}

// Without script there is a table that says the same.
func TestTableWithoutScript(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{"bank": {Retry: noRetry, Breaker: half}, "<b>bold</b>": {}}, dashboard.Config{})
	p.servers["bank"].do(answers(503))
	p.load("bank", 12)
	b := newTab(t)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.must(err)
	b.size(390, 800, false)
	b.open(p.url)
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("table")))
	b.must(err)
	for _, want := range []string{"bank", "open", "open since ", "): failure 100 % ≥ 50 % of 10 calls", "next probe at", "server 503 10×", "<b>bold</b>", "never called yet", "2 attempts"} {
		if want != "2 attempts" && !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
	b.shot("noscript.png")
}

// The page is usable on a phone, at night, and with the keyboard, whatever names there are.
func TestPhoneNightAndKeyboard(t *testing.T) {
	t.Parallel()
	policies := map[string]policy.Policy{
		"a-name-that-is-much-longer-than-any-phone-is-wide.internal.example.com:8443": {},
		`"><img src=x onerror=document.title='gone'>`:                                 {}, "plain": {},
	}
	for n := range 5 {
		policies[fmt.Sprint("other-", n)] = policy.Policy{}
	}
	p := newProgram(t, policies, dashboard.Config{Title: "small"})
	for name := range policies {
		p.load(name, 2)
	}
	b := newTab(t)
	for _, dark := range []bool{false, true} {
		b.size(390, 844, dark)
		b.open(p.url)
		b.until(`String(document.querySelectorAll(".tile").length)`, fmt.Sprint(len(policies)))
		b.until(tile("plain"), "succeeded")
		if n := b.read(`String(document.documentElement.scrollWidth)`); n != "390" {
			t.Errorf("dark %v: the page is %s px wide on a phone of 390", dark, n)
		}
		ground := b.read(`getComputedStyle(document.body).backgroundColor`)
		if night := strings.HasPrefix(ground, "rgb(13,"); night != dark {
			t.Errorf("dark %v: the ground is %s", dark, ground)
		}
	}
	if title := b.read(`document.title`); title != "small" {
		t.Errorf("a name became markup: the title is %q", title)
	}
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent("/")))
	b.read(`document.activeElement.value = ""`) // the slash is typed, too, when a test presses the key
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent("plain")))
	b.until(`String(document.querySelectorAll(".tile:not([hidden])").length)`, "1")
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r")))
	b.until(`document.querySelector("dialog[open]")?.innerText ?? ""`, "Rules in force")
	if n := b.read(`String(document.documentElement.scrollWidth)`); n != "390" {
		t.Errorf("the sheet is %s px wide", n)
	}
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent("\x1b")))
	b.until(`String(document.querySelector("dialog[open]") === null)`, "true")
	if focus := b.read(`document.activeElement.textContent`); focus != "plain" {
		t.Errorf("the focus is on %q after the sheet was closed", focus)
	}
}

// What is no gabion dependency has a tile, too, when its events are passed in.
func TestForeignClientHasATile(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{"bank": {}}, dashboard.Config{})
	ctx := context.Background()
	for n := range uint64(20) {
		e := gabion.Event{Dependency: "hand-written loop", Call: 1<<40 + n}
		for attempt := range uint8(4) {
			e.Kind, e.Attempt = policy.KindAttemptSent, attempt+1
			p.page.Observe(ctx, e)
			e.Kind, e.Class, e.Code, e.Took = policy.KindAttemptSettled, policy.ClassServer, "503", 30*time.Millisecond
			p.page.Observe(ctx, e)
		}
		e.Kind, e.Reason = policy.KindReturned, policy.AttemptsExhausted
		p.page.Observe(ctx, e)
	}
	b := newTab(t)
	b.open(p.url)
	for _, want := range []string{"watched | ", "4.00×", "20 failed", "server 503 ×80"} {
		b.until(tile("hand-written loop"), want)
	}
}

// A recording of a program is played, stopped, and moved, and shows what the program showed.
func TestRecordingIsPlayed(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	writer := record.NewWriter(&file)
	p := newProgram(t, map[string]policy.Policy{"bank": {Retry: noRetry, Breaker: half}}, dashboard.Config{})
	stop := p.registry.Observe(writer)
	p.load("bank", 5)
	p.servers["bank"].do(answers(503))
	p.load("bank", 30)
	stop()
	page := dashboard.Replay(dashboard.Config{Title: "last night"}, 1, func() iter.Seq2[time.Time, gabion.Event] {
		return func(yield func(time.Time, gabion.Event) bool) {
			for e, err := range recording.Entries(bytes.NewReader(file.Bytes())) {
				if err != nil || !yield(e.Time(e.Event.At), e.Event) {
					return
				}
			}
		}
	})
	site := httptest.NewServer(page)
	t.Cleanup(func() { page.Close(); site.Close() })
	b := newTab(t)
	b.open(site.URL + "/")
	for _, want := range []string{"open | ", "failure 50 % ≥ 50 % of 10 calls", "server 503 ×5", "5 succeeded", "25 refused here"} {
		b.until(tile("bank")+`.replaceAll("\u00a0", " ")`, want)
	}
	b.until(`document.querySelector("#replay button").innerText`, "Again")
	first := `(() => { const s = document.querySelector("#replay [type=range]"); s.value = 0; s.dispatchEvent(new Event("change")); return "" })()`
	b.must(chromedp.Do(b.ctx, chromedp.Click(chromedp.CSS("#replay button")))) // again
	b.until(`document.querySelector("#replay button").innerText`, "Again")
	place := `(() => { const s = document.querySelector("#replay [type=range]"); return "at " + (s.value / s.max).toFixed(3) })()`
	b.until(place, "at 1.000")
	b.read(first)
	b.until(place, "at 1.000")
	b.until(`document.querySelector("#replay button").innerText`, "Again")
	b.until(tile("bank"), "open | ")
	b.size(390, 844, false)
	if n := b.read(`String(document.documentElement.scrollWidth)`); n != "390" {
		t.Errorf("the page is %s px wide on a phone of 390", n)
	}
	b.shot("replay-phone.png")
	b.size(1200, 500, true)
	b.shot("replay.png")
}

// Many dependencies are lines, those in trouble first, and the page says so when its program
// is gone.
func TestManyAndGone(t *testing.T) {
	t.Parallel()
	policies := map[string]policy.Policy{}
	for n := range 60 {
		policies[fmt.Sprintf("dependency-%02d", n)] = policy.Policy{Retry: noRetry, Breaker: half}
	}
	p := newProgram(t, policies, dashboard.Config{})
	p.servers["dependency-42"].do(answers(503))
	p.load("dependency-42", 12)
	b := newTab(t)
	for _, width := range []int64{1440, 800, 390} {
		b.size(width, 800, false)
		b.open(p.url)
		b.until(`String(document.querySelectorAll(".long .tile").length)`, "60")
		b.until(`document.querySelector(".tile").dataset.name + " " + document.querySelector(".tile").dataset.state`, "dependency-42 open")
		if n := b.read(`String(document.documentElement.scrollWidth)`); n != fmt.Sprint(width) {
			t.Errorf("the page is %s px wide, the window %d", n, width)
		}
	}
	b.until(`document.getElementById("link").innerText`, "live")
	p.page.Close()
	b.until(`document.getElementById("link").innerText`, "no news for ")
	b.mu.Lock()
	b.complaints = nil // the browser says that the stream is gone
	b.mu.Unlock()
}
