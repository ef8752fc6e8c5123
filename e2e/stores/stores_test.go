package stores

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

func sizes() Sizes {
	if os.Getenv(MeasureEnv) == "" || os.Getenv(QuickEnv) != "" {
		return Quick
	}
	return Full
}

func TestMeasure(t *testing.T) {
	to := os.Getenv(MeasureEnv)
	s := sizes()
	var f Figures
	part := func(name string) bool { return to == "" || os.Getenv(PartEnv) == name }
	if part(PartPairs) {
		f.Sync = SyncTime(t, 100)
		f.Pairs = Pairs(t, s)
		check(t, f.Pairs)
	}
	if part(PartMiddleware) {
		f.Middleware = Middleware(t, s)
	}
	if part(PartMany) {
		c := Many(t, s)
		f.Many = &c
		if c.P99 <= 0 || c.SweptP99 <= 0 || c.Swept <= 0 {
			t.Errorf("%+v", c)
		}
	}
	if to == "" {
		return
	}
	f.about()
	text, err := json.Marshal(f)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// check fails on figures that no work could have.
func check(t *testing.T, rows []Row) {
	t.Helper()
	for _, row := range rows {
		if row.Missing != "" {
			t.Logf("%s: %s", row.Name, row.Missing)
			continue
		}
		for _, r := range row.Rounds {
			if r.Pairs <= 0 || r.P50 <= 0 || r.P99 < r.P50 {
				t.Errorf("%s: %+v", row.Name, r)
			}
		}
		if row.Name == Log && row.Bytes != 2*lineSize+1024 { // the others grow in steps
			t.Errorf("%s: %.0f bytes", row.Name, row.Bytes)
		}
	}
}

func TestAMissingServerIsNoFailure(t *testing.T) {
	after := false
	why := attempt(t, func(t testing.TB) {
		t.Skipf("there is no %s", "server")
		after = true
	})
	if why != "there is no server" || after || t.Skipped() {
		t.Errorf("%q; went on: %v; skipped: %v", why, after, t.Skipped())
	}
}

func TestQuantiles(t *testing.T) {
	var sorted []time.Duration
	for i := range 101 {
		sorted = append(sorted, time.Duration(i)*time.Millisecond)
	}
	if quantile(sorted, 0.5) != 50 || quantile(sorted, 0.99) != 99 || quantile(nil, 0.5) != 0 {
		t.Error(quantile(sorted, 0.5), quantile(sorted, 0.99))
	}
}
