package page

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/policy"
)

// In an outage with traffic the breaker probes several times a second. The page still says since when
// and why it is open, what its probes say, and what is done.
func TestOutageIsTold(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{"bank": {Retry: noRetry, Breaker: policy.Breaker{Consecutive: 20}}}, dashboard.Config{})
	p.servers["bank"].do(sometimes(1, 503, 30*time.Millisecond)) // so that half of the time a probe is out
	p.steady("bank", 200)
	b := newTab(t)
	b.open(p.url + "#d=bank")
	text := tile("bank") + `.replaceAll("\u00a0", " ")`
	for _, want := range []string{
		"open since ", "): 20 failures in a row", " probes failed, last: 503", "probes after 8 refused calls, at the latest in ", "refuses ", " calls/s, probes ",
	} {
		b.until(text, want)
	}
	news := `[...(document.querySelectorAll("dialog .news li"))].map((e) => e.innerText).join("\n")`
	b.until(news, " probes failed")
	got := strings.Split(b.read(news), "\n")
	if len(got) != 2 || !strings.Contains(got[0], ", last: 503") || !strings.Contains(got[1], "closed → open: ") {
		t.Errorf("what happened is\n%s", strings.Join(got, "\n"))
	}
	b.read(`(() => { window.states = new Set(); setInterval(() => states.add(document.querySelector(".tile").dataset.state), 20); return "" })()`)
	b.until(`[...states].sort().join()`, "half_open,open")
	if told := b.read(`document.getElementById("news").textContent`); strings.Contains(told, "half open") {
		t.Errorf("each probe is read aloud: %s", told)
	}
}

// Unclosed results take the slots, first within their time and then after it.
func TestSlotLeakIsTold(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{"bank": {
		Retry: noRetry, Timeout: policy.Timeout{Attempt: 3 * time.Second, Body: policy.Off, Idle: policy.Off},
		Bulkhead: policy.Bulkhead{Limit: 20, Queue: policy.Off},
	}}, dashboard.Config{})
	p.servers["bank"].do(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-p.ctx.Done():
		}
	})
	b := newTab(t)
	b.open(p.url) // before it begins: on a busy machine that takes longer than the attempts may
	c := p.client("bank")
	p.calls.Go(func() {
		for tick := time.NewTicker(10 * time.Millisecond); p.ctx.Err() == nil; {
			select {
			case <-tick.C:
				req, err := http.NewRequestWithContext(p.ctx, http.MethodGet, p.servers["bank"].URL, nil)
				if err != nil {
					return
				}
				if _, err = c.Do(req); err != nil { //nolint:bodyclose // that is the mistake
					continue
				}
			case <-p.ctx.Done():
			}
		}
	})
	b.until(tile("bank"), "20 slots are taken, but only 0 attempts are out")
	b.until(tile("bank"), " results are still open after their time: are bodies closed?")
}
