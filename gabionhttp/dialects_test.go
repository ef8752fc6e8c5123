package gabionhttp

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/policy"
)

func saying(unit string, left float64, more ...func(*policy.Remaining)) policy.Remaining {
	q := policy.Remaining{Unit: unit, Left: left}
	for _, f := range more {
		f(&q)
	}
	return q
}

func of(limit float64) func(*policy.Remaining)     { return func(q *policy.Remaining) { q.Limit = limit } }
func in(d time.Duration) func(*policy.Remaining)   { return func(q *policy.Remaining) { q.Reset = d } }
func each(d time.Duration) func(*policy.Remaining) { return func(q *policy.Remaining) { q.Window = d } }
func whole(q *policy.Remaining)                    { q.Full = true }

// Each dialect with an example of its document, at noon.
var dialectExamples = []struct {
	name   string
	header []string
	want   []policy.Remaining
}{
	{"the IETF's field", []string{"RateLimit", `"default";r=50;t=30`}, []policy.Remaining{saying("requests", 50, in(30*time.Second))}},
	{"with its policy", []string{"RateLimit", `"default";r=50;t=30`, "RateLimit-Policy", `"default";q=100;w=60`},
		[]policy.Remaining{saying("requests", 50, of(100), in(30*time.Second), each(time.Minute))}},
	{"two policies, two lines", []string{"RateLimit", `"permin";r=50`, "RateLimit", `"perhr";r=0;t=99`, "RateLimit-Policy", `"permin";q=50;w=60,"perhr";q=1000;w=3600`},
		[]policy.Remaining{saying("requests", 50, of(50), each(time.Minute)), saying("requests", 0, of(1000), in(99*time.Second), each(time.Hour))}},
	{"a partition key, no window", []string{"RateLimit", `"default";r=999;pk=:dHJpYWwxMjEzMjM=:`}, []policy.Remaining{saying("requests", 999)}},
	{"another unit", []string{"RateLimit", `"peruser";r=300000000;t=60;pk=:QXBwLTk5OQ==:`, "RateLimit-Policy", `"peruser";q=300000000;qu="content-bytes";w=60`},
		[]policy.Remaining{saying("content-bytes", 300000000, of(300000000), in(time.Minute), each(time.Minute))}},
	{"what is in flight is no quota of a time", []string{"RateLimit", `"c";r=0;t=5`, "RateLimit-Policy", `"c";q=10;qu="concurrent-requests"`}, nil},
	{"a vendor's parameters are comments", []string{"RateLimit", `"d";r=5;t=1;acme-burst=?1;acme-policy=gold`}, []policy.Remaining{saying("requests", 5, in(time.Second))}},
	{"the seventh draft", []string{"RateLimit", `limit=100, remaining=50, reset=30`, "RateLimit-Policy", `100;w=60`}, []policy.Remaining{saying("requests", 50, of(100), in(30*time.Second))}},
	{"the older drafts", []string{"RateLimit-Limit", "100, 100;w=60", "RateLimit-Remaining", "25", "RateLimit-Reset", "50"}, []policy.Remaining{saying("requests", 25, of(100), in(50*time.Second))}},
	{"Anthropic", []string{
		"Date", "Sat, 21 Nov 2026 12:00:00 GMT",
		"anthropic-ratelimit-requests-limit", "1000", "anthropic-ratelimit-requests-remaining", "999", "anthropic-ratelimit-requests-reset", "2026-11-21T12:00:01Z",
		"anthropic-ratelimit-input-tokens-limit", "80000", "anthropic-ratelimit-input-tokens-remaining", "78000", "anthropic-ratelimit-input-tokens-reset", "2026-11-21T12:00:02Z",
		"anthropic-ratelimit-output-tokens-limit", "16000", "anthropic-ratelimit-output-tokens-remaining", "12000", "anthropic-ratelimit-output-tokens-reset", "2026-11-21T12:00:15Z",
		"anthropic-ratelimit-tokens-limit", "96000", "anthropic-ratelimit-tokens-remaining", "90000", "anthropic-ratelimit-tokens-reset", "2026-11-21T14:00:02+02:00",
	}, []policy.Remaining{
		saying("requests", 999, of(1000), in(time.Second), each(time.Minute), whole), saying("input", 78000, of(80000), in(2*time.Second), each(time.Minute), whole),
		saying("output", 12000, of(16000), in(15*time.Second), each(time.Minute), whole), saying("tokens", 90000, of(96000), in(2*time.Second), each(time.Minute), whole),
	}},
	{"OpenAI", []string{
		"x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "1s",
		"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "6m0s",
	}, []policy.Remaining{saying("requests", 59, of(60), in(time.Second), whole), saying("tokens", 149984, of(150000), in(6*time.Minute), whole)}},
	{"OpenAI, of a project", []string{
		"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "6m0s",
		"x-ratelimit-limit-project-tokens", "60000", "x-ratelimit-remaining-project-tokens", "57000", "x-ratelimit-reset-project-tokens", "3s",
	}, []policy.Remaining{saying("tokens", 57000, of(60000), in(3*time.Second), whole)}},
	{"OpenAI, of a project with more", []string{"x-ratelimit-remaining-tokens", "7", "x-ratelimit-remaining-project-tokens", "57000"}, []policy.Remaining{saying("tokens", 7, whole)}},
	{"OpenAI, soon", []string{"x-ratelimit-remaining-tokens", "159976", "x-ratelimit-limit-tokens", "160000", "x-ratelimit-reset-tokens", "12ms"}, []policy.Remaining{saying("tokens", 159976, of(160000), in(12*time.Millisecond), whole)}},
	{"Groq", []string{"x-ratelimit-limit-requests", "14400", "x-ratelimit-remaining-requests", "14370", "x-ratelimit-reset-requests", "2m59.56s"}, []policy.Remaining{saying("requests", 14370, of(14400), in(2*time.Minute+59560*time.Millisecond), whole)}},
	{"Azure OpenAI", []string{
		"x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "10",
		"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "300",
	}, []policy.Remaining{saying("requests", 59, of(60), in(10*time.Second), whole), saying("tokens", 149984, of(150000), in(5*time.Minute), whole)}},
	{"Azure OpenAI, older", []string{"x-ratelimit-remaining-tokens", "19913", "x-ratelimit-remaining-requests", "19"}, []policy.Remaining{saying("requests", 19, whole), saying("tokens", 19913, whole)}},
	{"GitHub", []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4966", "X-RateLimit-Used", "34", "X-RateLimit-Resource", "core", "X-RateLimit-Reset", "1795262460"}, []policy.Remaining{saying("requests", 4966, of(5000), in(time.Minute))}},
	{"GitHub, a search", []string{"X-RateLimit-Limit", "30", "X-RateLimit-Remaining", "18", "X-RateLimit-Resource", "search", "X-RateLimit-Reset", "1795262460"}, []policy.Remaining{saying("search", 18, of(30), in(time.Minute))}},
	{"GitHub, a resource that is no unit", []string{"X-RateLimit-Remaining", "18", "X-RateLimit-Resource", "A=1"}, []policy.Remaining{saying("requests", 18)}},
	{"milliseconds since 1970", []string{"X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "1795262401500"}, []policy.Remaining{saying("requests", 1, in(1500*time.Millisecond))}},
	{"seconds from now", []string{"X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "5", "X-RateLimit-Reset", "60"}, []policy.Remaining{saying("requests", 5, of(10), in(time.Minute))}},
	{"the server's clock counts", []string{"Date", "Sat, 21 Nov 2026 11:00:00 GMT", "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "1795258810"}, []policy.Remaining{saying("requests", 1, in(10*time.Second))}},
	{"a date", []string{"X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "Sat, 21 Nov 2026 12:00:07 GMT"}, []policy.Remaining{saying("requests", 1, in(7*time.Second))}},
	{"Discord", []string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1470173023", "X-RateLimit-Reset-After", "0.75"}, []policy.Remaining{saying("requests", 0, of(5), in(750*time.Millisecond))}},
	{"Okta and X", []string{"X-Rate-Limit-Limit", "600", "X-Rate-Limit-Remaining", "598", "X-Rate-Limit-Reset", "1795262445"}, []policy.Remaining{saying("requests", 598, of(600), in(45*time.Second))}},
	{"Azure OpenAI, which does not know", []string{"x-ratelimit-limit-tokens", "-1", "x-ratelimit-remaining-tokens", "-1", "x-ratelimit-reset-tokens", "0"}, nil},
	{"Azure", []string{"x-ms-ratelimit-remaining-subscription-reads", "11999"}, []policy.Remaining{saying("reads", 11999)}},
	{"Shopify", []string{"X-Shopify-Shop-Api-Call-Limit", "32/40"}, []policy.Remaining{saying("requests", 8, of(40), in(16*time.Second), each(20*time.Second), whole)}},
	{"of two dialects the first counts", []string{"RateLimit", `"default";r=5;t=3`, "X-RateLimit-Remaining", "9", "X-RateLimit-Reset", "60"}, []policy.Remaining{saying("requests", 5, in(3*time.Second))}},
	{"a third party's and a provider's units", []string{"x-ratelimit-remaining-tokens", "7", "X-RateLimit-Remaining", "9"}, []policy.Remaining{saying("tokens", 7, whole), saying("requests", 9)}},
	{"a reset that has passed", []string{"X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "1700000000"}, []policy.Remaining{saying("requests", 1, in(0))}},
}

func TestEachDialectSaysWhatItsDocumentSays(t *testing.T) {
	for _, tt := range dialectExamples {
		t.Run(tt.name, func(t *testing.T) {
			h := header(tt.header...)
			if !speaks(h) {
				t.Error("it is taken for an answer that says nothing of quotas")
			}
			same(t, Remaining(h, noon), tt.want)
		})
	}
}

func same(t *testing.T, got, want []policy.Remaining) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

// What can't be meant is ignored, and so is the whole of a malformed field.
func TestWhatCanNotBeMeantIsIgnored(t *testing.T) {
	many := strings.Repeat(`"d";r=1,`, 999) + `"d";r=1`
	for name, pairs := range map[string][]string{
		"no number":                   {"X-RateLimit-Remaining", "many"},
		"no number at all":            {"X-RateLimit-Remaining", ""},
		"NaN":                         {"X-RateLimit-Remaining", "NaN"},
		"infinity":                    {"X-RateLimit-Remaining", "Inf"},
		"negative":                    {"X-RateLimit-Remaining", "-1"},
		"an exponent":                 {"X-RateLimit-Remaining", "1e3"},
		"more than a number holds":    {"X-RateLimit-Remaining", strings.Repeat("9", 60)},
		"ten kilobytes":               {"X-RateLimit-Remaining", strings.Repeat("0", 10<<10)},
		"a thousand items":            {"RateLimit", many},
		"ten kilobytes of a field":    {"RateLimit", `"d";r=1;x="` + strings.Repeat("a", 10<<10) + `"`},
		"a field without r":           {"RateLimit", `"d";t=5`},
		"one of two without r":        {"RateLimit", `"d";r=1,"e";t=5`},
		"a negative r":                {"RateLimit", `"d";r=-1`},
		"a decimal r":                 {"RateLimit", `"d";r=1.5`},
		"a token for a name":          {"RateLimit", `default;r=1`},
		"an inner list":               {"RateLimit", `("d" "e");r=1`},
		"a comma at the end":          {"RateLimit", `"d";r=1,`},
		"sixteen digits":              {"RateLimit", `"d";r=1234567890123456`},
		"an open string":              {"RateLimit", `"d;r=1`},
		"the seventh draft, negative": {"RateLimit", `limit=100, remaining=-5, reset=5`},
		"the seventh draft, nothing":  {"RateLimit", `limit=100`},
		"Shopify, more than all":      {headerShopify, "41/40"},
		"Shopify, of none":            {headerShopify, "0/0"},
		"Shopify, one number":         {headerShopify, "40"},
	} {
		t.Run(name, func(t *testing.T) { same(t, Remaining(header(pairs...), noon), nil) })
	}
	for name, reset := range map[string]string{
		"no time": "soon", "negative": "-5", "negative duration": "-5s", "a year": "31536000", "a thousand days": "1000d", "the year 9999": "9999-12-31T23:59:59Z",
		"microseconds since 1970": "1795262460000000", "more than a duration holds": "99999999d", "overflowing": "106751d23h59m", "long": strings.Repeat("1s", 40),
	} {
		t.Run("reset: "+name, func(t *testing.T) {
			same(t, Remaining(header("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset), noon), []policy.Remaining{saying("requests", 0)})
		})
	}
	t.Run("at most eight", func(t *testing.T) {
		field, windows := "", ""
		for i := range 20 {
			field += fmt.Sprintf(`, "d%d";r=1`, i)
			windows += fmt.Sprintf(`, "d%d";q=2;w=%d`, i, i+1)
		}
		h := header("RateLimit", field[2:], "RateLimit-Policy", windows[2:])
		if got := Remaining(h, noon); len(got) != mostQuotas {
			t.Errorf("%d quotas of one answer", len(got))
		}
	})
}

// How long calls are held where a quota has nothing left.
func TestWhenThereIsRoomAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header []string
		want   time.Duration
	}{
		{"something is left", []string{"RateLimit", `"d";r=1;t=30`}, 0},
		{"nothing is left, and no time is named", []string{"RateLimit", `"d";r=0`}, 0},
		{"the window's end", []string{"RateLimit", `"d";r=0;t=30`}, 30 * time.Second},
		{"the longest of two", []string{"RateLimit", `"d";r=0;t=30,"e";r=0;t=40,"f";r=1;t=50`}, 40 * time.Second},
		{"a bucket of requests has one sooner than all", []string{"x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1m0s"}, time.Second},
		{"a bucket of tokens has a twentieth sooner", []string{"x-ratelimit-limit-tokens", "60000", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "1m0s"}, 3 * time.Second},
		{"the reset was just now", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "0"}, 0},
		{"no word of quotas", []string{"Content-Type", "text/plain"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := emptied(header(tt.header...), atNoon)
			if got != tt.want || ok != (tt.want > 0) {
				t.Errorf("calls are held for %v, %t; want %v", got, ok, tt.want)
			}
		})
	}
}

// Each row of the table says where it is documented, and is read by an example.
func TestEachDialectHasASourceAndAnExample(t *testing.T) {
	for _, d := range dialects {
		if d.source == "" || (d.read == nil) == (len(d.quotas) == 0) {
			t.Errorf("%s has source %q, and quotas and a reader: %d, %t", d.name, d.source, len(d.quotas), d.read != nil)
		}
		for _, q := range d.quotas {
			for _, name := range [...]string{q.left, q.limit, q.reset, q.after} {
				if name != "" && name != http.CanonicalHeaderKey(name) {
					t.Errorf("net/http spells %q in another way", name)
				}
				if name != "" && !speaks(http.Header{name: nil}) {
					t.Errorf("%s goes unseen", name)
				}
			}
		}
	}
	seen := map[string]bool{}
	for _, e := range dialectExamples {
		for i := 0; i < len(e.header); i += 2 {
			seen[http.CanonicalHeaderKey(e.header[i])] = true
		}
	}
	for _, d := range dialects {
		found := d.read != nil
		for _, q := range d.quotas {
			found = found || seen[q.left]
		}
		if !found {
			t.Errorf("no example has %s", d.name)
		}
	}
}

// FuzzRemaining: whatever a server sends, what is read can be meant.
func FuzzRemaining(f *testing.F) {
	for _, e := range dialectExamples {
		for i := 0; i+3 < len(e.header); i += 4 {
			f.Add(e.header[i], e.header[i+1], e.header[i+2], e.header[i+3])
		}
	}
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		h := header(n1, v1, n2, v2)
		got := Remaining(h, noon)
		if len(got) > mostQuotas {
			t.Fatalf("%d quotas", len(got))
		}
		for _, q := range got {
			if q.Unit == "" || !sound(q.Left) || !sound(q.Limit) || q.Reset < 0 || q.Reset > mostReset || q.Window < 0 {
				t.Fatalf("%+v of %v", q, h)
			}
			if d, ok := quota.Back(&q); ok && (d < 0 || d > mostReset) {
				t.Fatalf("room in %v after %+v", d, q)
			}
		}
	})
}

func sound(n float64) bool { return !math.IsNaN(n) && n >= 0 && n <= 1e15 }

// docs/llm.md has the rows of the table, in its order, with their sources.
func TestTheDocumentHasEachDialect(t *testing.T) {
	page, err := os.ReadFile("../docs/llm.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := strings.ReplaceAll(string(page), "`", "")
	for _, d := range dialects {
		at := strings.Index(rest, "| "+d.name+" |")
		if at < 0 {
			t.Fatalf("docs/llm.md has no row %q after the one before", d.name)
		}
		rest = rest[at:]
		row, _, _ := strings.Cut(rest, "\n")
		if !strings.Contains(row, d.source) {
			t.Errorf("the row %q does not say %q", row, d.source)
		}
	}
}
