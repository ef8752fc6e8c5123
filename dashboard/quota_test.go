package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

func TestQuotasAreALineEach(t *testing.T) {
	tokens := policy.QuotaStats{Unit: "tokens", Span: time.Minute, Amount: 200_000, Left: 12_300, Factor: 1}
	told := tokens
	told.Told, told.Waiting, told.Next, told.Factor = true, 3, 400*time.Millisecond, 2.96
	money := policy.QuotaStats{Unit: "usd", Span: 24 * time.Hour, Amount: 25.5, Left: 1.239, Waiting: 1, Factor: 1}
	for want, q := range map[string]policy.QuotaStats{
		"tokens/1m: 12,300 of 200,000 left": tokens,
		"tokens/1m: 12,300 of 200,000 left, as the dependency says, 3 calls wait, room in 400 ms; calls use 3 times their estimates": told,
		"usd/24h: 1.24 of 25.5 left, 1 call waits": money,
	} {
		if got := quotaLevel(&q); got != want {
			t.Errorf("says  %s\nwants %s", got, want)
		}
		v := vitals{known: true, stats: policy.Stats{Main: policy.PartitionStats{Quotas: []policy.QuotaStats{q}}}}
		if got := strings.Join(v.levels(&evidence{}), "\n"); !strings.Contains(got, want) {
			t.Errorf("the page says %s", got)
		}
	}
}
