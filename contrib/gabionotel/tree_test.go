package gabionotel_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

func TestTheTreeOfACallWithTwoRetriesAndAHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := traced(policy.Policy{
			Safe: true, Timeout: policy.Timeout{Call: 10 * time.Second, Attempt: 4 * time.Second},
			Retry: policy.Retry{Attempts: 5, Backoff: every(100 * time.Millisecond), Budget: policy.Budget{Off: true}, Hold: policy.Off},
			Hedge: policy.Hedge{Max: 1, Delay: 50 * time.Millisecond, Percentile: policy.Off},
		})
		_, err := gabion.Do(t.Context(), d, scripted(lasts(80*time.Millisecond, errDown), lasts(60*time.Millisecond, errDown), fails(errDown), takes(time.Second)), gabion.WithOperation("charge"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		x.want(t, "two retries and a hedge")
		page, err := os.ReadFile("../../docs/tracing.md")
		if err != nil {
			t.Fatal(err)
		}
		if outline := x.outline(); !strings.Contains(string(page), outline) {
			t.Errorf("docs/tracing.md does not show this tree:\n%s", outline)
		}
	})
}
