package page

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/policy"
)

// outage is a program of twelve dependencies, of which some are in trouble.
func outage(t *testing.T) *program {
	p := newProgram(t, map[string]policy.Policy{
		"payments": {
			Retry: quick, Timeout: policy.Timeout{Attempt: time.Second},
			Breaker: policy.Breaker{MinCalls: 40, FailureRate: 0.5, Open: 90 * time.Second, OpenCalls: 8, OpenJitter: policy.Off},
		},
		"ledger": {}, "search": {Timeout: policy.Timeout{Attempt: 300 * time.Millisecond}},
		"mail": {Retry: noRetry}, "stock": {Hedge: policy.Hedge{Max: 1, Delay: 60 * time.Millisecond}},
		"shipping":    {Bulkhead: policy.Bulkhead{Limit: 8, Queue: 4}},
		"fraud-score": {RateLimit: policy.RateLimit{Rate: 20, MaxWait: policy.Off}}, "geocoder": {},
		"invoices": {}, "currency-rates": {}, "push": {}, "archive": {Breaker: noBreaker},
	}, dashboard.Config{Title: "shop", AllowOverrides: true})
	p.servers["payments"].do(sometimes(0.002, 503, 40*time.Millisecond))
	time.AfterFunc(wait(t)*3/4, func() { p.servers["payments"].do(sometimes(0.7, 503, 60*time.Millisecond)) })
	time.AfterFunc(wait(t)*3/4+4*time.Second, func() { p.servers["payments"].do(sometimes(1, 503, 60*time.Millisecond)) })
	p.servers["ledger"].do(sometimes(0, 200, 8*time.Millisecond))
	p.servers["search"].do(sometimes(0.02, 500, 70*time.Millisecond))
	p.servers["mail"].do(sometimes(0.01, 422, 20*time.Millisecond))
	p.servers["stock"].do(sometimes(0.01, 503, 30*time.Millisecond))
	p.servers["shipping"].do(sometimes(0, 200, 500*time.Millisecond))
	p.servers["geocoder"].do(sometimes(0, 200, 25*time.Millisecond))
	time.AfterFunc(wait(t)/2, func() { p.servers["geocoder"].do(comeBackIn(4)) })
	p.servers["currency-rates"].do(sometimes(0, 200, 3*time.Millisecond))
	p.servers["invoices"].do(sometimes(0.1, 503, 15*time.Millisecond))
	for name, rate := range map[string]float64{
		"payments": 40, "ledger": 60, "search": 30, "mail": 10, "stock": 25, "shipping": 25, "fraud-score": 30, "geocoder": 4,
		"invoices": 20, "currency-rates": 15, "push": 0.5,
	} {
		p.steady(name, rate)
	}
	p.dependency("push").Retries().By("ann, ticket 4711").Stop(15 * time.Minute)
	return p
}

// wait is how long a program runs before its picture is taken.
func wait(t *testing.T) time.Duration {
	long, err := time.ParseDuration(os.Getenv("GABION_PAGE_WAIT"))
	switch {
	case err == nil:
		return long
	case os.Getenv("GABION_PAGE_SHOTS") == "":
		return time.Second
	}
	return 35 * time.Second
}

// calm is a program of n dependencies that work.
func calm(t *testing.T, n int) *program {
	policies := map[string]policy.Policy{}
	for i := range n {
		policies[names[i%len(names)]+suffix(i/len(names))] = policy.Policy{}
	}
	p := newProgram(t, policies, dashboard.Config{Title: "shop"})
	i := 0
	for name := range policies {
		p.servers[name].do(sometimes(0.001, 503, time.Duration(2+i%40)*time.Millisecond))
		if i++; i%9 == 0 && n > 50 {
			p.servers[name].do(sometimes(0.8, 503, 10*time.Millisecond))
		}
		p.steady(name, 1+float64(40*i%97)/float64(n))
	}
	return p
}

var names = []string{"payments", "ledger", "search", "mail", "stock", "shipping", "fraud-score", "geocoder", "invoices", "currency-rates", "push", "archive"}

func suffix(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("-%02d.eu-%d.internal", n, n%3)
}

// TestScreenshots makes the pictures of docs/page.md and others to look at:
//
//	GABION_PAGE_SHOTS=/tmp/shots GABION_PAGE_WAIT=2m go test ./page -run Screenshots
//
// Without a folder it takes a few, so that it is known to work, and keeps none.
func TestScreenshots(t *testing.T) {
	kept := os.Getenv("GABION_PAGE_SHOTS") != ""
	for _, c := range []struct {
		name    string
		program func(*testing.T) *program
		detail  string
	}{
		{"outage", outage, "payments"},
		{"one", func(t *testing.T) *program { return calm(t, 1) }, ""},
		{"three", func(t *testing.T) *program { return calm(t, 3) }, ""},
		{"many", func(t *testing.T) *program { return calm(t, 300) }, ""},
	} {
		if !kept && c.name != "three" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.program(t)
			b := newTab(t)
			b.size(1440, 1000, false)
			b.open(p.url)
			pass(wait(t))
			b.shot(c.name + "-light.png")
			b.size(1440, 1000, true)
			pass(time.Second)
			b.shot(c.name + "-dark.png")
			b.size(390, 844, true)
			pass(time.Second)
			b.shot(c.name + "-phone.png")
			if c.detail == "" {
				return
			}
			b.open(p.url + "#d=" + c.detail)
			pass(2 * time.Second)
			b.shot(c.name + "-sheet-phone.png")
			b.size(1440, 1000, false)
			b.until(`(() => { const all = [...document.querySelectorAll("dialog details")]; const steps = (d) => d.querySelectorAll("li").length; const most = Math.max(...all.map(steps)); all.find((d) => steps(d) === most).open = true; return document.querySelector("dialog").innerText })()`, "attempt")
			pass(time.Second)
			b.shot(c.name + "-sheet.png")
			b.read(`(() => { const d = document.querySelector("dialog"); d.scrollTop = d.scrollHeight; return "" })()`)
			pass(time.Second)
			b.shot(c.name + "-sheet-end.png")
		})
	}
}
