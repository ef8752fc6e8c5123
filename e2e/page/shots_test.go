package page

import (
	"os"
	"testing"
	"time"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/policy"
)

// outage is a program of twelve dependencies, of which some are in trouble.
func outage(t *testing.T) *program {
	p := newProgram(t, map[string]policy.Policy{
		"payments": {Retry: quick, Breaker: half, Timeout: policy.Timeout{Attempt: time.Second}},
		"ledger":   {}, "search": {Timeout: policy.Timeout{Attempt: 300 * time.Millisecond}},
		"mail": {Retry: noRetry}, "stock": {Hedge: policy.Hedge{Max: 1, Delay: 60 * time.Millisecond}},
		"shipping":    {Bulkhead: policy.Bulkhead{Limit: 8, Queue: 4}},
		"fraud-score": {RateLimit: policy.RateLimit{Rate: 20, MaxWait: policy.Off}}, "geocoder": {},
		"invoices": {}, "currency-rates": {}, "push": {}, "archive": {Breaker: noBreaker},
	}, dashboard.Config{Title: "shop", AllowOverrides: true})
	p.servers["payments"].do(sometimes(0.6, 503, 40*time.Millisecond))
	p.servers["ledger"].do(sometimes(0, 200, 8*time.Millisecond))
	p.servers["search"].do(sometimes(0.02, 500, 70*time.Millisecond))
	p.servers["mail"].do(sometimes(0.01, 422, 20*time.Millisecond))
	p.servers["stock"].do(sometimes(0.01, 503, 30*time.Millisecond))
	p.servers["shipping"].do(sometimes(0, 200, 500*time.Millisecond))
	p.servers["geocoder"].do(comeBackIn(4))
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

// TestScreenshots makes the pictures of docs/page.md and others to look at.
func TestScreenshots(t *testing.T) {
	if os.Getenv("GABION_PAGE_SHOTS") == "" {
		t.Skip("GABION_PAGE_SHOTS names no folder for the pictures")
	}
	p := outage(t)
	b := newTab(t)
	b.size(1440, 1100, false)
	b.open(p.url)
	time.Sleep(25 * time.Second)
	b.shot("12-light.png")
	b.size(1440, 1100, true)
	time.Sleep(time.Second)
	b.shot("12-dark.png")
	b.size(390, 844, false)
	time.Sleep(time.Second)
	b.shot("12-phone.png")
	b.size(1440, 1100, false)
	b.open(p.url + "#d=payments")
	time.Sleep(3 * time.Second)
	b.shot("detail.png")
}
