package past

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/recording"
)

// The smallest sources that can be replayed.
const (
	smallRecording = `{"kind":"header","version":1,"time":"2026-11-20T12:00:00Z"}
{"kind":"dependency","dependency":"db","zero":"2026-11-20T12:00:00Z","settings":[{"path":"timeout.call","value":"2s","source":"gabion.yaml:3"},{"path":"hedge.off","value":"true","source":"gabion.yaml:4"},{"path":"key","value":"declared","source":"default"}]}
{"at":1000000000,"kind":"attempt_sent","dependency":"db","call":1,"attempt":1}
{"at":1010000000,"kind":"attempt_settled","dependency":"db","call":1,"attempt":1,"class":"server","effect":"unknown","took":10000000,"code":"503"}
{"at":1020000000,"kind":"attempt_sent","dependency":"db","call":1,"attempt":2}
{"at":1050000000,"kind":"attempt_settled","dependency":"db","call":1,"attempt":2,"class":"success","effect":"none","took":30000000,"code":"200"}
{"at":1050000000,"kind":"returned","dependency":"db","call":1,"attempt":2,"effect":"none","took":50000000,"code":"200"}
{"at":3000000000,"kind":"returned","dependency":"db","call":2,"reason":"breaker_open","took":0}
`
	smallSpans = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.instance.id","value":{"stringValue":"a"}}]},"scopeSpans":[{"spans":[` +
		`{"traceId":"t","spanId":"c","kind":1,"startTimeUnixNano":"1000000000","endTimeUnixNano":"1050000000","attributes":[{"key":"gabion.dependency","value":{"stringValue":"db"}},{"key":"gabion.outcome","value":{"stringValue":"ok"}}]},` +
		`{"traceId":"t","spanId":"a","parentSpanId":"c","kind":3,"startTimeUnixNano":"1000000000","endTimeUnixNano":"1050000000","attributes":[{"key":"gabion.dependency","value":{"stringValue":"db"}},{"key":"gabion.class","value":{"stringValue":"success"}},{"key":"gabion.attempt","value":{"intValue":"1"}}]}]}]}]}
`
	smallHTTP = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","spanId":"a","parentSpanId":"p","kind":"SPAN_KIND_CLIENT","startTimeUnixNano":"1000000000","endTimeUnixNano":"1050000000","attributes":[{"key":"http.request.method","value":{"stringValue":"GET"}},{"key":"server.address","value":{"stringValue":"db"}},{"key":"http.response.status_code","value":{"intValue":"503"}}],"status":{"code":2}},` +
		`{"traceId":"t","spanId":"b","parentSpanId":"p","kind":3,"startTimeUnixNano":"1100000000","endTimeUnixNano":"1150000000","attributes":[{"key":"http.request.method","value":{"stringValue":"GET"}},{"key":"server.address","value":{"stringValue":"db"}},{"key":"http.response.status_code","value":{"intValue":"200"}},{"key":"http.request.resend_count","value":{"intValue":"1"}}]}]}]}]}
`
	smallMetrics = `{"status":"success","data":{"resultType":"matrix","result":[` +
		`{"metric":{"__name__":"gabion_calls_total","dependency":"db","outcome":"ok"},"values":[[0,"0"],[5,"10"],[10,"20"],[15,"5"],[20,"6"]]},` +
		`{"metric":{"__name__":"gabion_attempts_total","dependency":"db","kind":"first","result":"success"},"values":[[0,"0"],[5,"10"],[10,"20"],[15,"5"],[20,"6"]]},` +
		`{"metric":{"__name__":"gabion_attempt_duration_seconds_bucket","dependency":"db","result":"success","le":"0.1"},"values":[[0,"0"],[5,"5"],[10,"10"],[15,"2"],[20,"3"]]},` +
		`{"metric":{"__name__":"gabion_attempt_duration_seconds_bucket","dependency":"db","result":"success","le":"+Inf"},"values":[[0,"0"],[5,"10"],[10,"20"],[15,"5"],[20,"6"]]},` +
		`{"metric":{"__name__":"gabion_call_duration_seconds","dependency":"db","result":"success"},"histograms":[[5,{"count":"1","sum":"1","buckets":[[0,"0.1","0.2","10"]]}],[10,{"count":"1","sum":"1","buckets":[[0,"0.1","0.2","20"],[0,"0.2","0.3","1"]]}]]}]}}`
)

func TestSmallSources(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		rows         []Row
		ended, good  int
		kind, policy string
	}{
		{"recording", smallRecording, []Row{{0, 10 * time.Millisecond, 503}, {2 * time.Second, 30 * time.Millisecond, 200}}, 2, 1, "a recording", "[{ timeout.call 2s} { hedge off}]"},
		{"spans", smallSpans, []Row{{0, 50 * time.Millisecond, 200}}, 1, 1, "spans", "[]"},
		{"requests", smallHTTP, []Row{{0, 50 * time.Millisecond, 503}}, 1, 1, "spans", "[]"},
		{"metrics", smallMetrics, nil, 26, 26, "metrics over time", "[]"},
		{"a span of something else that has not ended", strings.Replace(smallHTTP, `"spans":[`, `"spans":[{"traceId":"t","spanId":"p","kind":2,"startTimeUnixNano":"900000000","endTimeUnixNano":"0"},`, 1),
			[]Row{{0, 50 * time.Millisecond, 503}}, 1, 1, "spans", "[]"},
	} {
		p, err := ReadFrom(strings.NewReader(c.text), Options{Name: c.name})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if p.Dependency != "db" || p.Kind != c.kind || p.Whole.Ended != c.ended || p.Whole.Answered != c.good || fmt.Sprint(p.Policy) != c.policy {
			t.Errorf("%s: %+v", c.name, p)
		}
		if c.rows != nil && fmt.Sprint(p.Rows) != fmt.Sprint(c.rows) {
			t.Errorf("%s: rows %v, want %v", c.name, p.Rows, c.rows)
		}
	}
}

// A deployment replaces processes: those that are gone and those that came are not there at once.
func TestProcessesAreCountedThatWereThereAtOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"status":"success","data":{"resultType":"matrix","result":[`)
	for i, pod := range []string{"a", "b", "c", "d"} { // two of them, and then two others
		from := 0
		if i >= 2 {
			from = 50
		}
		for _, of := range []string{`"gabion_calls_total","outcome":"ok"`, `"gabion_attempts_total","kind":"first","result":"success"`,
			`"gabion_attempt_duration_seconds_bucket","result":"success","le":"0.1"`, `"gabion_call_duration_seconds_bucket","result":"success","le":"0.1"`} {
			fmt.Fprintf(&b, `{"metric":{"__name__":%s,"dependency":"db","pod":%q},"values":[`, of, pod)
			for at := from; at <= from+50; at += 5 {
				fmt.Fprintf(&b, `[%d,"%d"],`, at, at-from)
			}
			fmt.Fprintf(&b, `[%d,"55"]]},`, from+51)
		}
	}
	text := strings.TrimSuffix(b.String(), ",") + "]}}"
	for from, want := range map[string]int{"": 2, "60s": 2} {
		p, err := ReadFrom(strings.NewReader(text), Options{Name: "x", From: from})
		if err != nil || p.Clients != want {
			t.Errorf("from %q: %+v, %v", from, p, err)
		}
	}
}

// A mistake is reported with the file, the place and what to do.
func TestWhatCannotBeReplayed(t *testing.T) {
	for _, c := range []struct{ fact, text, want string }{
		{"nothing", "", "x is empty: name a recording"},
		{"something else", "hello\n", "x:1: it can't be replayed: name a recording"},
		{"a recording without calls", strings.SplitAfter(smallRecording, "}\n")[0], "x is empty: it has no events"},
		{"a recording that breaks at once", `{"kind":"header","version":1}` + "\n" + `{"kind":"nonsense"}` + "\n", "x: line 2: kind"},
		{"spans that are no JSON", `{"resourceSpans":[}` + "\n", "x:1: invalid character '}'"},
		{"spans over several lines", "{\n\"resourceSpans\":[]}\n", "jq -c . makes lines"},
		{"a span that ends first", strings.Replace(smallHTTP, `"1050000000"`, `"5"`, 1), "x:1: span a ends before it starts"},
		{"an invalid time", strings.Replace(smallHTTP, `"1050000000"`, `"soon"`, 1), `x:1: "soon" is no time in nanoseconds`},
		{"spans of servers", strings.ReplaceAll(strings.Replace(smallHTTP, `"SPAN_KIND_CLIENT"`, "2", 1), `"kind":3`, `"kind":2`), "has no spans of gabion's, nor of an HTTP client"},
		{"several dependencies", strings.Replace(smallHTTP, `{"stringValue":"db"}`, `{"stringValue":"eb"}`, 1), "choose one with --dependency: db, eb"},
		{"an error of Prometheus", `{"status":"error","errorType":"bad_data","error":"parse error"}`, "Prometheus answered an error: parse error"},
		{"an instant vector", `{"status":"success","data":{"resultType":"vector","result":[]}}`, "ask /api/v1/query_range"},
		{"series without names", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"dependency":"db"},"values":[]}]}}`, "ask for the counters themselves"},
		{"series of others", `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "has none of gabionprom's series"},
		{"a cut answer", smallMetrics[:len(smallMetrics)/2], "at byte"},
		{"an invalid value", strings.Replace(smallMetrics, `[5,"10"]`, `[5,10]`, 1), "a value is no pair of a time and a number in quotes: [5,10]"},
		{"few points", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"gabion_calls_total","dependency":"db","outcome":"ok"},"values":[[0,"0"],[5,"10"]]}]}}`, "a replay needs at least 4"},
	} {
		_, err := ReadFrom(strings.NewReader(c.text), Options{Name: "x"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.fact, err, c.want)
		}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Name: "x", Dependency: "dbs"}, `x says nothing of "dbs": did you mean db?`},
		{Options{Name: "x", From: "noon"}, "--from noon: write a duration"},
		{Options{Name: "x", From: "1h"}, "x has no call of db that ended in that part of the time"},
	} {
		for _, text := range []string{smallRecording, smallSpans, smallMetrics} {
			_, err := ReadFrom(strings.NewReader(text), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "needs at least 4") {
				t.Errorf("%+v: %v, want %s", c.o, err, c.want)
			}
		}
	}
}

// rangeWith is an answer of Prometheus with series of one value in each of five steps, which counts up.
func rangeWith(labels ...string) string {
	var all []string
	for _, l := range labels {
		all = append(all, fmt.Sprintf(`{"metric":{%s},"values":[[0,"0"],[5,"10"],[10,"20"],[15,"30"],[20,"40"]]}`, l))
	}
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(all, ",") + `]}}`
}

const (
	otelBucket  = `"__name__":"http_client_request_duration_seconds_bucket","server_address":"db","http_response_status_code":"200","le":"+Inf"`
	istioTotal  = `"__name__":"istio_requests_total","reporter":"source","destination_service_name":"db","response_code":"503","response_flags":"-"`
	istioBucket = `"__name__":"istio_request_duration_milliseconds_bucket","reporter":"source","destination_service_name":"db","response_code":"503","response_flags":"-","le":"+Inf"`
	grpcTotal   = `"__name__":"grpc_client_handled_total","grpc_service":"db","grpc_code":"NotFound"`
	grpcBucket  = `"__name__":"grpc_client_handling_seconds_bucket","grpc_service":"db","le":"+Inf"`
	ownTotal    = `"__name__":"hits_total","to":"db","how":"timeout"`
	ownBucket   = `"__name__":"hits_ms_bucket","to":"db","how":"timeout","le":"+Inf"`
)

var ownNames = Naming{Requests: "hits_total", Durations: "hits_ms", Status: "how", By: "to"}

// istioGRPC is a series of Istio's as it is of calls of gRPC: proxies see 200 and the status of gRPC beside it.
func istioGRPC(labels string) string {
	return strings.Replace(labels, `"response_code":"503"`, `"response_code":"200","request_protocol":"grpc","grpc_response_status":"14"`, 1)
}

// Requests that others count are calls with one attempt: each once, whether a counter, a histogram or both have it.
func TestMetricsOfOthers(t *testing.T) {
	for _, c := range []struct {
		fact, text            string
		naming                Naming
		ended, answered, hung int
	}{
		{"a histogram alone", rangeWith(otelBucket), Naming{}, 40, 40, 0},
		{"a counter and a histogram", rangeWith(istioTotal, istioBucket), Naming{}, 40, 0, 0},
		{"the buckets first", rangeWith(istioBucket, istioTotal), Naming{}, 40, 0, 0},
		{"both sides of a mesh", rangeWith(istioTotal, strings.Replace(istioTotal, "source", "destination", 1), istioBucket), Naming{}, 40, 0, 0},
		{"a call of gRPC in a mesh, whose status of HTTP is 200", rangeWith(istioGRPC(istioTotal), istioGRPC(istioBucket)), Naming{}, 40, 0, 0},
		{"a refusal is an answer", rangeWith(grpcTotal, grpcBucket), Naming{}, 40, 40, 0},
		{"names of one's own", rangeWith(ownTotal, ownBucket), ownNames, 40, 0, 40},
		{"gabionprom's beside others", strings.Replace(smallMetrics, `"result":[`, `"result":[{"metric":{`+otelBucket+`},"values":[[0,"0"],[5,"900"]]},`, 1), Naming{}, 26, 26, 0},
	} {
		p, err := ReadFrom(strings.NewReader(c.text), Options{Name: "x", Naming: c.naming})
		if err != nil {
			t.Errorf("%s: %v", c.fact, err)
			continue
		}
		if p.Dependency != "db" || p.Whole.Ended != c.ended || p.Whole.Answered != c.answered || p.Hung != c.hung {
			t.Errorf("%s: %s, %d ended, %d answered, %d hung", c.fact, p.Dependency, p.Whole.Ended, p.Whole.Answered, p.Hung)
		}
	}
}

// An error says what is missing, and what to ask for.
func TestWhatIsMissingOfMetrics(t *testing.T) {
	for _, c := range []struct {
		fact, text string
		naming     Naming
		want       string
	}{
		{"no latencies", rangeWith(istioTotal), Naming{}, `does not say how long attempts took: istio_request_duration_milliseconds is missing: ask for query={__name__=~"(istio_requests_total|istio_request_duration_milliseconds)(_bucket)?",destination_service_name="db",reporter="source"}`},
		{"only the servers' side", rangeWith(strings.Replace(istioTotal, "source", "destination", 1)), Naming{}, `ask for reporter="source"`},
		{"two exporters", rangeWith(otelBucket, istioTotal, istioBucket), Naming{}, "which may be the same ones: ask for one of them"},
		{"no label for the dependency", rangeWith(strings.Replace(otelBucket, "server_address", "peer", 1)), Naming{}, "has the label server_address, which names the dependency: name another with --by"},
		{"unknown names", rangeWith(ownTotal), Naming{}, "it has hits_total; name a counter with --requests"},
		{"a status that says nothing", rangeWith(strings.Replace(ownTotal, "timeout", "blue", 1), ownBucket), ownNames, `how="blue" is neither a status of HTTP or gRPC`},
		{"a counter alone", rangeWith(ownTotal), Naming{Requests: "hits_total", Status: "how", By: "to"}, "name it with --durations"},
		{"gabionprom's without attempts", rangeWith(`"__name__":"gabion_calls_total","dependency":"db","outcome":"ok"`), Naming{}, `gabion_attempts_total is missing: ask for query={__name__=~"gabion_.+",dependency="db"}`},
	} {
		_, err := ReadFrom(strings.NewReader(c.text), Options{Name: "x", Naming: c.naming})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.fact, err, c.want)
		}
	}
}

func TestAPartOfTheTime(t *testing.T) {
	p, err := ReadFrom(strings.NewReader(smallRecording), Options{Name: "x", From: "1s", For: time.Minute})
	if err != nil || len(p.Rows) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = ReadFrom(strings.NewReader(smallRecording), Options{Name: "x", From: "2026-11-20T12:00:00Z", For: 2 * time.Second})
	if err != nil || len(p.Rows) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// A recording that is cut off is used as far as it goes.
func TestACutRecording(t *testing.T) {
	p, err := ReadFrom(strings.NewReader(smallRecording+`{"at":4000000000,"kind":"nonsense"}`+"\n"+`{"kind":"header","version":1}`+"\n"), Options{Name: "x"})
	if err != nil || len(p.Rows) != 2 || len(p.Notes) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// What is kept of each call is bounded, and a million of them are the most.
func TestTooManyCalls(t *testing.T) {
	tp := &tape{calls: make([]call, maxCalls)}
	var many *tooManyError
	if err := tp.ended(call{at: int64(time.Hour)}); !errors.As(err, &many) || many.Long != time.Hour || !strings.Contains(err.Error(), "--from and --for") {
		t.Errorf("%v", err)
	}
}

func fuzz(f *testing.F, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadFrom(bytes.NewReader(text), Options{Name: "x"})
		if err != nil {
			return
		}
		last := time.Duration(-1)
		for _, r := range p.Rows {
			if r.At < 0 || r.At < last || r.Took < 0 || r.Status != Refused && r.Status != 0 && (r.Status < 100 || r.Status > 599) {
				t.Fatalf("%+v after %s", r, last)
			}
			last = r.At
		}
		if len(p.Rows) == 0 || p.Width <= 0 || p.Clients < 1 || len(p.Bins) == 0 {
			t.Fatalf("%+v", p)
		}
	})
}

func FuzzRecording(f *testing.F) { fuzz(f, smallRecording) }
func FuzzSpans(f *testing.F)     { fuzz(f, smallSpans, smallHTTP) }
func FuzzMetrics(f *testing.F) {
	fuzz(f, smallMetrics, rangeWith(otelBucket), rangeWith(istioTotal, istioBucket), rangeWith(grpcTotal, grpcBucket))
}

// What calls met that sent no attempt: failures of probes tell, and their successes do not.
func TestRefusedCallsMeetFailures(t *testing.T) {
	second := int64(time.Second)
	tp := &tape{}
	for i := range int64(100) { // ten a second
		at := i * second / 10
		c := call{at: at, how: failed}
		sent := observed{took: 1, status: 200, knows: met}
		switch {
		case i == 40: // a probe that fails
			sent.status = 503
		case i == 70: // and one that succeeds
		case i >= 20 && i < 80: // refused
			sent.knows = nothing
		}
		if c.own = sent; sent.knows == met {
			tp.settled(attempt{at, sent})
		}
		if err := tp.ended(c); err != nil {
			t.Fatal(err)
		}
	}
	p := tp.develop()
	for i, want := range map[int]int{10: 200, 35: 503, 50: 503, 59: 503, 75: 200, 90: 200} {
		if p.Rows[i].Status != want {
			t.Errorf("the call after %s met %d, want %d", p.Rows[i].At, p.Rows[i].Status, want)
		}
	}
	if p.Guessed != 58 {
		t.Errorf("%d calls are guessed", p.Guessed)
	}
}

// Calls that have ended are not kept as if they were under way.
func TestWhatIsUnderWayIsForgotten(t *testing.T) {
	r := &reel{open: map[recording.ID]*under{}, runs: map[int]bool{}}
	for e, err := range recording.Entries(strings.NewReader(smallRecording)) {
		if err == nil {
			err = r.take(&e, Options{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(r.open) != 0 || len(r.calls) != 2 {
		t.Errorf("%d are under way, %d have ended", len(r.open), len(r.calls))
	}
}
