package replaycmd

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// entries are the events of a recording.
func entries(t testing.TB, kept []byte) (all []policy.Event) {
	t.Helper()
	for e, err := range recording.Entries(bytes.NewReader(kept)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Event)
	}
	return all
}

// zero is the instant zero of what the generators write.
var zero = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC).UnixNano()

// outcome is the word for how a call ended.
func outcome(e *policy.Event) string {
	if e.Reason == policy.None {
		return "ok"
	}
	return e.Reason.String()
}

// ourSpans writes a recording as the spans of contrib/gabionotel, in the batches of an exporter.
func ourSpans(all []policy.Event, to io.Writer) {
	var spans []string
	flush := func() {
		if len(spans) > 0 {
			fmt.Fprintf(to, `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.instance.id","value":{"stringValue":"a"}}]},"scopeSpans":[{"scope":{"name":"github.com/gabion-go/gabion/contrib/gabionotel"},"spans":[%s]}]}]}`+"\n", strings.Join(spans, ","))
			spans = spans[:0]
		}
	}
	text := func(k, v string) string { return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, k, v) }
	add := func(e *policy.Event, id, parent string, kind int, more ...string) {
		as := append([]string{text("gabion.dependency", e.Dependency)}, more...)
		if e.Code != "" {
			as = append(as, text("gabion.code", e.Code))
		}
		spans = append(spans, fmt.Sprintf(`{"traceId":"%032x","spanId":%q,"parentSpanId":%q,"name":"x","kind":%d,"startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[%s],"status":{}}`,
			e.Call, id, parent, kind, zero+int64(e.At)-int64(e.Took), zero+int64(e.At), strings.Join(as, ",")))
		if len(spans) == 512 {
			flush()
		}
	}
	for i := range all {
		e := &all[i]
		switch e.Kind {
		case policy.KindAttemptSettled, policy.KindLoserSettled:
			add(e, fmt.Sprintf("%08x%08x", e.Call, e.Attempt), fmt.Sprintf("%016x", e.Call), 3, text("gabion.class", e.Class.String()), text("gabion.effect", e.Effect.String()),
				fmt.Sprintf(`{"key":"gabion.attempt","value":{"intValue":"%d"}}`, e.Attempt))
		case policy.KindReturned:
			add(e, fmt.Sprintf("%016x", e.Call), "", 1, text("gabion.outcome", outcome(e)))
		}
	}
	flush()
}

// httpSpans writes the attempts of a recording as spans of an HTTP client, below the span of
// whoever made the call.
func httpSpans(all []policy.Event, to io.Writer) {
	for i := range all {
		e := &all[i]
		if e.Kind != policy.KindAttemptSettled {
			continue
		}
		more := `,{"key":"error.type","value":{"stringValue":"timeout"}}`
		status := 2
		switch {
		case e.Code != "":
			more = fmt.Sprintf(`,{"key":"http.response.status_code","value":{"intValue":%q}}`, e.Code)
			if e.Code == "200" {
				status = 0
			}
		case e.Class == policy.ClassNetwork && e.Effect == policy.NoEffect:
			more = `,{"key":"error.type","value":{"stringValue":"connection refused"}}`
		case e.Class == policy.ClassNetwork:
			more = `,{"key":"error.type","value":{"stringValue":"EOF"}}`
		}
		if e.Attempt > 1 {
			more += fmt.Sprintf(`,{"key":"http.request.resend_count","value":{"intValue":"%d"}}`, e.Attempt-1)
		}
		fmt.Fprintf(to, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":"%08x%08x","parentSpanId":"%016x","name":"GET","kind":"SPAN_KIND_CLIENT","startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[{"key":"http.request.method","value":{"stringValue":"GET"}},{"key":"server.address","value":{"stringValue":"db"}}%s],"status":{"code":%d}}]}]}]}`+"\n",
			e.Call, e.Call, e.Attempt, e.Call, zero+int64(e.At)-int64(e.Took), zero+int64(e.At), more, status)
	}
}

// The bounds of gabionprom's classic buckets, in seconds.
var classicBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, math.Inf(1)}

// counters counts what gabionprom counts, and is scraped.
type counters struct {
	counts  map[string]float64 // by the labels after the dependency
	buckets map[string]map[int]float64
	lines   map[string][]string // of samples
	fine    bool
}

func (c *counters) observe(name, result string, took time.Duration) {
	labels := fmt.Sprintf(`"__name__":%q,"result":%q`, name, result)
	if c.fine { // schema 3
		if c.buckets[labels] == nil {
			c.buckets[labels] = map[int]float64{}
		}
		c.buckets[labels][int(math.Ceil(8*math.Log2(took.Seconds())))]++
		return
	}
	for _, b := range classicBounds {
		le := fmt.Sprintf(`"__name__":%q,"result":%q,"le":%q`, name+"_bucket", result, strings.Replace(strconv.FormatFloat(b, 'g', -1, 64), "+Inf", "+Inf", 1))
		if c.counts[le] += 0; took.Seconds() <= b {
			c.counts[le]++
		}
	}
}

// scrape writes down what is counted so far.
func (c *counters) scrape(at int64) {
	for labels, n := range c.counts {
		c.lines[labels] = append(c.lines[labels], fmt.Sprintf(`[%d.%03d,"%v"]`, at/1000, at%1000, n))
	}
	for labels, all := range c.buckets {
		var text []string
		for i, n := range all {
			text = append(text, fmt.Sprintf(`[0,"%g","%g","%v"]`, math.Pow(2, float64(i-1)/8), math.Pow(2, float64(i)/8), n))
		}
		slices.Sort(text)
		c.lines[labels] = append(c.lines[labels], fmt.Sprintf(`[%d.%03d,{"count":"1","sum":"1","buckets":[%s]}]`, at/1000, at%1000, strings.Join(text, ",")))
	}
}

// rangeOf writes a recording as what Prometheus answers of gabionprom's series.
func rangeOf(all []policy.Event, step time.Duration, fine bool, to io.Writer) {
	c := &counters{counts: map[string]float64{}, buckets: map[string]map[int]float64{}, lines: map[string][]string{}, fine: fine}
	for _, result := range []string{"success", "network", "timeout", "server", "throttled"} {
		c.counts[fmt.Sprintf(`"__name__":"gabion_attempts_total","kind":"first","result":%q`, result)] = 0
	}
	c.counts[`"__name__":"gabion_calls_total","outcome":"ok"`] = 0
	next := policy.Instant(0)
	for i := range all {
		e := &all[i]
		for e.At >= next {
			c.scrape(zero/1e6 + time.Duration(next).Milliseconds())
			next += policy.Instant(step)
		}
		result := "success"
		switch e.Kind {
		case policy.KindAttemptSettled, policy.KindLoserSettled:
			kind := "first"
			if e.Attempt > 1 {
				kind = "retry"
			}
			c.counts[fmt.Sprintf(`"__name__":"gabion_attempts_total","kind":%q,"result":%q`, kind, e.Class)]++
			if e.Class == policy.ClassIgnored {
				continue
			}
			if e.Class != policy.ClassSuccess {
				result = "failure"
			}
			c.observe("gabion_attempt_duration_seconds", result, max(e.Took, 1000))
		case policy.KindAttemptSent:
			if e.Attempt > 1 && !e.Hedge {
				code := e.Code
				if code == "" {
					code = e.Class.String()
				}
				c.counts[fmt.Sprintf(`"__name__":"gabion_retries_total","code":%q`, code)]++
			}
		case policy.KindReturned:
			c.counts[fmt.Sprintf(`"__name__":"gabion_calls_total","outcome":%q`, outcome(e))]++
			if e.Reason != policy.None {
				result = "failure"
			}
			c.observe("gabion_call_duration_seconds", result, max(e.Took, 1000))
		}
	}
	c.scrape(zero/1e6 + time.Duration(next).Milliseconds())
	var series []string
	for labels, samples := range c.lines {
		what := "values"
		if strings.Contains(samples[0], "buckets") {
			what = "histograms"
		}
		series = append(series, fmt.Sprintf(`{"metric":{%s,"dependency":"db","instance":"a"},%q:[%s]}`, labels, what, strings.Join(samples, ",")))
	}
	slices.Sort(series)
	fmt.Fprintf(to, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(series, ","))
}
