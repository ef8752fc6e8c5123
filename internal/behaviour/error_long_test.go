package behaviour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// An error says the numbers that its reason is about, as they were.
func TestErrorsNameTheirNumbers(t *testing.T) {
	failing := func(context.Context) error { return classify.Transient(io.EOF) }
	full := func(p policy.Policy) func(*testing.T) error {
		return func(t *testing.T) error {
			d := gabion.New("db", p)
			ctx, cancel := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer cancel()
			occupy := func() {
				d.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, gabion.WithTimeout(time.Hour))
			}
			go occupy()
			go occupy()
			synctest.Wait()
			time.AfterFunc(300*time.Millisecond, occupy) // it queues behind the call, where there is room
			if p.Bulkhead.Queue == 1 {
				go occupy()
				synctest.Wait()
			}
			return d.Run(ctx, failing)
		}
	}
	calls := func(p policy.Policy, n int, opts ...gabion.CallOption) func(*testing.T) error {
		return func(t *testing.T) (err error) {
			d := gabion.New("db", p)
			for range n {
				err = d.Run(t.Context(), failing, opts...)
			}
			return err
		}
	}
	for _, c := range []struct {
		fact string
		call func(*testing.T) error
		want string
	}{
		{"a queue that was too long", full(policy.Policy{
			Timeout: policy.Timeout{Attempt: policy.Off, Call: time.Hour}, Bulkhead: policy.Bulkhead{Limit: 2, Queue: 5, QueueTimeout: 700 * time.Millisecond},
		}), "db: queue_timeout (limit 2, 1 queued, waited 700ms), nothing sent"},
		{"a queue that is full", full(policy.Policy{
			Timeout: policy.Timeout{Attempt: policy.Off, Call: time.Hour}, Bulkhead: policy.Bulkhead{Limit: 2, Queue: 1, QueueTimeout: time.Hour},
		}), "db: bulkhead_full (limit 2, 1 queued), nothing sent"},
		{"no time for another attempt", calls(policy.Policy{
			Safe: true, Timeout: policy.Timeout{Call: time.Second, Attempt: policy.Off},
			Retry: policy.Retry{Backoff: backoff.Backoff{Kind: backoff.Constant, Base: 990 * time.Millisecond}},
		}, 1), "db: deadline_short (1s left, 1.04s needed) after 1 attempt, may have happened: EOF"},
		{"a budget that is spent", calls(policy.Policy{
			Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Const(0), Budget: policy.Budget{Floor: policy.Off}},
		}, 12), "db: budget_exhausted (12 calls, 1 re-sends, 1 allowed) after 1 attempt, may have happened: EOF"},
		{"a budget of tokens that is spent", calls(policy.Policy{
			Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Const(0), Budget: policy.Budget{Capacity: 3, Cost: 2}},
		}, 2), "db: budget_exhausted (0.5 re-sends left, each success earns 0.1 tokens) after 1 attempt, may have happened: EOF"},
		{"gRPC's throttling", calls(policy.Policy{
			Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Const(0), Budget: policy.Budget{Shape: policy.BudgetGRPC, Capacity: 5, Ratio: 0.125}},
		}, 2), "db: budget_exhausted (2 of 5 tokens left, more than half are needed, each success earns 0.125) after 1 attempt, may have happened: EOF"},
		{"a quota that is spent", calls(policy.Policy{
			Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Const(0), Budget: policy.Budget{Shape: policy.BudgetQuota, Capacity: 20}},
		}, 2), "db: budget_exhausted (6 of 20 tokens left, this re-send costs 14) after 1 attempt, may have happened: EOF"},
		{"a share of what is in flight", calls(policy.Policy{
			Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Const(0), Budget: policy.Budget{Shape: policy.BudgetShare, MinInFlight: policy.Off}},
		}, 1), "db: budget_exhausted (1 calls and 0 re-sends in flight, 0 allowed) after 1 attempt, may have happened: EOF"},
		{"the default budget, with nothing earned", calls(policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}}, 2),
			"db: budget_exhausted (0 re-sends left, each success earns 0.3, 0 successes in 1s, 1 sent so far, the last retry did not help) after 1 attempt, may have happened: EOF"},
		{"the default budget, with what was earned spent", func(t *testing.T) (err error) {
			d := gabion.New("db", policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Const(0)}})
			for range 10 { // they earn three, and no part of one
				d.Run(t.Context(), func(context.Context) error { return nil })
			}
			for err == nil || !errors.Is(err, policy.BudgetExhausted) {
				err = d.Run(t.Context(), failing)
			}
			return err
		}, "db: budget_exhausted (0 re-sends left, each success earns 0.3, 10 successes in 1s, 3 sent so far, 0 of the last 3 retries helped) after 1 attempt, may have happened: EOF"},
		{"a breaker that opened", calls(policy.Policy{
			Breaker: policy.Breaker{Consecutive: 2, Open: 20 * time.Second, OpenJitter: policy.Off},
		}, 3), "db: breaker_open (consecutive), nothing sent, retry after 20s"},
		{"a breaker that opened before the retry", calls(policy.Policy{
			Safe: true, Breaker: policy.Breaker{Consecutive: 1, Open: 20 * time.Second, OpenJitter: policy.Off},
		}, 1), "db: breaker_open (consecutive) after 1 attempt, may have happened, retry after 20s: EOF"},
		{"what has no numbers", calls(policy.Policy{}, 1), "db: not_safe after 1 attempt, may have happened: EOF"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := c.call(t); got == nil || got.Error() != c.want {
					t.Errorf("got  %v\nwant %s", got, c.want)
				}
			})
		})
	}
}

func TestAnIsolatedBreakerSaysSo(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	b, _ := d.Breaker("")
	b.Isolate()
	if err := d.Run(t.Context(), func(context.Context) error { return nil }); err == nil || err.Error() != "db: breaker_open (isolated), nothing sent" {
		t.Errorf("got %v", err)
	}
}

func TestTheLongFormSaysWhatToDo(t *testing.T) {
	inner := &gabion.Error{Dependency: "ledger", Reason: policy.Paced, RetryAfter: time.Second}
	err := &gabion.Error{Dependency: "db", Reason: policy.DoNotRetry, Attempts: 1, Effect: policy.UnknownEffect, Err: inner}
	const want = `db: do_not_retry after 1 attempt, may have happened
  effect: unknown, it may have happened
  error: ledger: paced, nothing sent, retry after 1s
    effect: none, it has not happened
    what to do: come back after RetryAfter: the dependency asked for that time
    more: https://github.com/gabion-go/gabion/blob/main/docs/reasons.md#paced
  what to do: do not retry it here either; the last error says who asked for that
  more: https://github.com/gabion-go/gabion/blob/main/docs/reasons.md#do_not_retry`
	if got := fmt.Sprintf("%+v", err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := fmt.Sprintf("%+v", fmt.Errorf("shop: %w", err)); got != "shop: "+err.Error() {
		t.Errorf("wrapped: %s", got)
	}
}

// Only %+v differs from what fmt prints of any error.
func TestVerbsPrintTheShortText(t *testing.T) {
	err := &gabion.Error{Dependency: "db", Reason: policy.NotRetryable, Attempts: 1, Err: io.EOF}
	like := errors.New(err.Error())
	for _, format := range []string{"%v", "%s", "%q", "%x", "%X", "% x", "%60s|", "%-60v|", "%.5s", "%#q", "%+q"} {
		if got, want := fmt.Sprintf(format, err), fmt.Sprintf(format, like); got != want {
			t.Errorf("%s: got %s, want %s", format, got, want)
		}
	}
	if got := fmt.Sprintf("%#v", err); !strings.HasPrefix(got, `&gabion.Error{Dependency:"db", Reason:0x1,`) {
		t.Errorf("%%#v: got %s", got)
	}
	if got := fmt.Sprintf("%d", err); !strings.Contains(got, "%!d(string=db) 1 ") {
		t.Errorf("%%d: got %s", got)
	}
	var none *gabion.Error
	if got := fmt.Sprintf("%v %+v %s", none, none, none); got != "<nil> <nil> <nil>" {
		t.Errorf("nil: got %s", got)
	}
}

// Each reason ends in what its reader can do: in the long form, and on the page.
func TestEachReasonEndsInWhatToDo(t *testing.T) {
	page, err := os.ReadFile("../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n### ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		sections[name] = strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
	}
	for _, r := range policy.Reasons() {
		long := fmt.Sprintf("%+v", &gabion.Error{Dependency: "db", Reason: r})
		todo := regexp.MustCompile(`\n  what to do: (.+)\n`).FindStringSubmatch(long)
		switch {
		case todo == nil:
			t.Errorf("%s: what can its reader do? Add it to advice in error_long.go", r)
		case !strings.HasSuffix(sections[r.String()], "**What to do:** "+todo[1]+"."):
			t.Errorf("%s: its section in docs/reasons.md does not end with\n**What to do:** %s.", r, todo[1])
		}
	}
}
