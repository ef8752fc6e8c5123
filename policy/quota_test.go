package policy

import (
	"cmp"
	"math"
	"strings"
	"testing"
	"time"
)

func TestQuotasAreLines(t *testing.T) {
	for _, tt := range []struct {
		line string
		want Quota
		out  string // written again; empty: as it was
	}{
		{"200000 tokens/1m", Quota{Unit: "tokens", Amount: 200_000, Span: time.Minute}, ""},
		{"200000 tokens/1m estimate 900 among 10 window", Quota{Unit: "tokens", Amount: 200_000, Span: time.Minute, Estimate: 900, Among: 10, Window: true}, ""},
		{"  500   requests/m ", Quota{Unit: "requests", Amount: 500, Span: time.Minute}, "500 requests/1m"},
		{"25.5 usd/24h", Quota{Unit: "usd", Amount: 25.5, Span: 24 * time.Hour}, "25.5 usd/24h"},
		{"10 tokens", Quota{Unit: "tokens", Amount: 10}, ""},
		{"60 requests/1h window", Quota{Unit: "requests", Amount: 60, Span: time.Hour, Window: true}, ""},
	} {
		t.Run(tt.line, func(t *testing.T) {
			var q Quota
			if err := q.UnmarshalText([]byte(tt.line)); err != nil || q != tt.want {
				t.Fatalf("read as %+v (%v), want %+v", q, err, tt.want)
			}
			want := cmp.Or(tt.out, tt.line)
			var again Quota
			if err := again.UnmarshalText([]byte(q.String())); q.String() != want || err != nil || again != q {
				t.Errorf("written as %q (%v), want %q", q.String(), err, want)
			}
		})
	}
}

func TestLinesThatAreNoQuota(t *testing.T) {
	for line, want := range map[string]string{
		"":                                    "is no quota",
		"tokens/1m":                           "is no quota",
		"NaN tokens/1m":                       "is no quota",
		"Inf tokens/1m":                       "is no quota",
		"-5 tokens/1m":                        "is no quota",
		"0 tokens/1m":                         "has an amount that is not between",
		"100":                                 "has no unit",
		"100 /1m":                             "has no unit",
		"100 Tokens/1m":                       "has no unit",
		"100 tokens/soon":                     "has no span that can be read",
		"100 tokens/off":                      "has no span that can be read",
		"100 tokens/1ms":                      "has a span that is not between",
		"100 tokens/1000h":                    "has a span that is not between",
		"100 tokens/1m estimate":              "has no number after estimate",
		"100 tokens/1m estimate -1":           "has no number after estimate",
		"100 tokens/1m estimate 101":          "has an estimate above its amount",
		"100 tokens/1m among 0":               "is shared among no number",
		"100 tokens/1m among 2.5":             "is shared among no number",
		"100 tokens/1m windows":               "which means nothing here",
		"0.5 requests/1s":                     "has less than one request",
		"1 tokens/1m " + string(manyAmongs()): "is no quota",
	} {
		t.Run(line, func(t *testing.T) {
			q := Quota{Unit: "kept", Amount: 1}
			err := q.UnmarshalText([]byte(line))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("says %v, want %q", err, want)
			}
			if q != (Quota{Unit: "kept", Amount: 1}) {
				t.Errorf("and changed the quota to %+v", q)
			}
		})
	}
}

func manyAmongs() []byte { return []byte(strings.Repeat("among 3 ", 30)) }

func TestQuotasOfAPolicy(t *testing.T) {
	q := func(unit string, amount float64, span time.Duration) Quota {
		return Quota{Unit: unit, Amount: amount, Span: span}
	}
	for _, tt := range []struct {
		fact string
		list []Quota
		want string // empty: it is valid
	}{
		{"several of several units", []Quota{q("requests", 500, 0), q("tokens", 1e6, 0), q("tokens", 1e8, 24*time.Hour), q("usd", 10, 24*time.Hour)}, ""},
		{"two of one unit and span", []Quota{q("tokens", 10, 0), q("tokens", 20, time.Minute)}, "has the unit and span of another"},
		{"nine", make([]Quota, 9), "are too many"},
		{"no unit", []Quota{q("", 10, 0)}, "has no unit"},
		{"NaN", []Quota{q("tokens", math.NaN(), 0)}, "has an amount"},
		{"infinite", []Quota{q("tokens", math.Inf(1), 0)}, "has an amount"},
		{"an estimate that is NaN", []Quota{{Unit: "tokens", Amount: 10, Estimate: math.NaN()}}, "has an estimate"},
		{"below zero", []Quota{q("tokens", -1, 0)}, "has an amount"},
		{"no time", []Quota{q("tokens", 1, -time.Second)}, "has a span"},
		{"among fewer than none", []Quota{{Unit: "tokens", Amount: 10, Among: -1}}, "is shared among no number"},
	} {
		t.Run(tt.fact, func(t *testing.T) {
			err := Policy{RateLimit: RateLimit{Quotas: tt.list}}.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("says %v, want %q", err, tt.want)
			}
		})
	}
}

func TestQuotasHaveDefaults(t *testing.T) {
	p := Policy{RateLimit: RateLimit{Quotas: []Quota{{Unit: "tokens", Amount: 100}, {Unit: "requests", Amount: 5, Estimate: 3}, {Unit: "usd", Amount: 0.5}}}}
	got := p.Resolved().RateLimit.Quotas
	want := []Quota{
		{Unit: "tokens", Amount: 100, Span: time.Minute, Estimate: 1, Among: 1},
		{Unit: "requests", Amount: 5, Span: time.Minute, Estimate: 1, Among: 1},
		{Unit: "usd", Amount: 0.5, Span: time.Minute, Estimate: 0.5, Among: 1},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	if p.RateLimit.Quotas[0].Span != 0 {
		t.Error("the policy's own list was changed")
	}
}

// FuzzQuota: what is read is written, and read again as the same.
func FuzzQuota(f *testing.F) {
	f.Add("200000 tokens/1m estimate 900 among 10 window")
	f.Add("1e3 usd/s")
	f.Fuzz(func(t *testing.T, line string) {
		var q, again Quota
		if q.UnmarshalText([]byte(line)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(q.String())); err != nil || again != q {
			t.Errorf("%q is %+v, written %q, read as %+v: %v", line, q, q.String(), again, err)
		}
		if err := (Policy{RateLimit: RateLimit{Quotas: []Quota{q}}}).Validate(); err != nil {
			t.Errorf("%q is read and not valid: %v", line, err)
		}
	})
}

func TestQuotasOfPartitionsAreOne(t *testing.T) {
	s := Stats{Partitions: []PartitionStats{
		{Name: "a", Quotas: []QuotaStats{{Unit: "tokens", Span: time.Minute, Amount: 100, Left: 50, Waiting: 2}}},
		{Name: "b", Quotas: []QuotaStats{{Unit: "tokens", Span: time.Minute, Amount: 10, Left: 1, Waiting: 1}}},
	}}
	got := s.Quotas()
	if len(got) != 1 || got[0].Left != 1 || got[0].Waiting != 3 || got[0].Name() != "tokens/1m" {
		t.Errorf("%+v", got)
	}
}
