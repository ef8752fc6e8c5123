package gabionhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// below is what is below a Faults: it counts, and keeps the headers of the last request.
type below struct {
	sent   int
	header http.Header
}

func (b *below) RoundTrip(r *http.Request) (*http.Response, error) {
	b.sent++
	b.header = r.Header
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("hello")), Request: r}, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func asking(t *testing.T, fault string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if fault != "" {
		r.Header.Set(gabionhttp.HeaderFault, fault)
	}
	return r
}

// came is what came of a request, in words.
func came(resp *http.Response, err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return "reset"
	case err != nil:
		return err.Error()
	}
	defer resp.Body.Close()
	text := fmt.Sprint(resp.StatusCode)
	if after := resp.Header.Get("Retry-After"); after != "" {
		text += " after " + after
	}
	if _, err := io.ReadAll(resp.Body); errors.Is(err, io.ErrUnexpectedEOF) {
		text += " cut"
	}
	if resp.Header.Get(gabionhttp.HeaderInjected) == "" {
		text += " unmarked"
	}
	return text
}

var faultCases = []struct {
	fault  string
	client string // what a client's Faults makes of it
	server string // what a server's makes of it
	works  int    // how often what is below was asked
	took   time.Duration
}{
	{"down", "refused", "reset", 0, 0},
	{"reset", "reset", "reset", 0, 0},
	{"errors", "503", "503", 0, 0},
	{"errors; status=429; retry_after=1500ms", "429 after 2", "429 after 2", 0, 0},
	{"errors; after_work=true", "500", "500", 1, 0},
	{"lost_answers", "reset", "reset", 1, 0},
	{"cut_body", "200 cut", "200 cut", 1, 0},
	{"slow; add=200ms", "200", "200", 1, 200 * time.Millisecond},
	{"slow_body; add=200ms", "200", "200", 1, 200 * time.Millisecond},
	{"reset; share=0.001%, errors", "503", "503", 0, 0},
}

func TestFaultsOfAClient(t *testing.T) {
	for _, c := range faultCases {
		synctest.Test(t, func(t *testing.T) {
			b := new(below)
			f := &gabionhttp.Faults{Base: b, Header: true, Logger: quiet(), Draw: func() float64 { return 0.5 }}
			start := time.Now()
			if got := came(f.RoundTrip(asking(t, c.fault))); got != c.client || b.sent != c.works || time.Since(start) != c.took {
				t.Errorf("%s: %s, sent %d times, took %v", c.fault, got, b.sent, time.Since(start))
			}
			if f.Count() != 1 {
				t.Errorf("%s: counted %d", c.fault, f.Count())
			}
		})
	}
}

func TestFaultsOfAServer(t *testing.T) {
	gabiontest.NoLeaks(t)
	for _, c := range faultCases {
		t.Run(c.fault, func(t *testing.T) {
			var works atomic.Int64
			f := &gabionhttp.Faults{Header: true, Logger: quiet(), Draw: func() float64 { return 0.5 }}
			on := httptest.NewServer(f.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				works.Add(1)
				if r.Header.Get(gabionhttp.HeaderFault) != "" {
					t.Error("the header goes further")
				}
				_, _ = io.WriteString(w, "hello")
				_, _ = io.WriteString(w, ", world")
			})))
			defer on.Close()
			on.Config.ErrorLog = nil
			by := &http.Transport{}
			defer by.CloseIdleConnections()
			r := asking(t, strings.ReplaceAll(c.fault, "200ms", "1ms"))
			r.URL.Host = strings.TrimPrefix(on.URL, "http://")
			if got := came(by.RoundTrip(r)); got != c.server || int(works.Load()) != c.works {
				t.Errorf("%s, worked %d times", got, works.Load())
			}
		})
	}
}

func TestABlackHoleEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &gabionhttp.Faults{Base: new(below), Always: []gabionhttp.Fault{{Kind: "black_hole"}}, Logger: quiet()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.RoundTrip(asking(t, "").WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		start := time.Now()
		if _, err := f.RoundTrip(asking(t, "")); !errors.Is(err, syscall.ETIMEDOUT) || time.Since(start) != 10*time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// The header counts only if it was enabled, and is removed in any case.
func TestTheHeaderIsOnlyBelievedIfEnabled(t *testing.T) {
	for _, f := range []*gabionhttp.Faults{{}, {Always: []gabionhttp.Fault{{Kind: "errors", Share: 1e-9}}, Draw: func() float64 { return 0.5 }}} {
		b := new(below)
		f.Base, f.Logger = b, quiet()
		r := asking(t, "errors")
		if got := came(f.RoundTrip(r)); got != "200 unmarked" || f.Count() != 0 {
			t.Errorf("a header that was not enabled: %s", got)
		}
		if b.header.Get(gabionhttp.HeaderFault) != "" {
			t.Error("it goes further")
		}
		if r.Header.Get(gabionhttp.HeaderFault) == "" {
			t.Error("the caller's request was changed")
		}
		w := httptest.NewRecorder()
		f.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get(gabionhttp.HeaderFault) != "" {
				t.Error("it goes further in a server")
			}
		})).ServeHTTP(w, r)
		if w.Code != 200 {
			t.Errorf("a server believes it: %d", w.Code)
		}
	}
}

func TestAHeaderThatCantBeReadIsRefused(t *testing.T) {
	b := new(below)
	f := &gabionhttp.Faults{Base: b, Header: true, Logger: quiet()}
	if _, err := f.RoundTrip(asking(t, "error")); err == nil || !strings.Contains(err.Error(), "did you mean errors?") || b.sent != 0 {
		t.Errorf("%v, sent %d", err, b.sent)
	}
	w := httptest.NewRecorder()
	f.Handler(http.NotFoundHandler()).ServeHTTP(w, asking(t, "error"))
	if w.Code != http.StatusBadRequest {
		t.Errorf("a server says %d", w.Code)
	}
	bad := &gabionhttp.Faults{Base: b, Always: []gabionhttp.Fault{{Kind: "error"}}, Logger: quiet()}
	if _, err := bad.RoundTrip(asking(t, "")); err == nil || !strings.Contains(err.Error(), "unknown kind") {
		t.Error(err)
	}
}

// Fault injection is logged at the start and every minute.
func TestFaultsAreLoud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		told := 0
		f := &gabionhttp.Faults{
			Base: new(below), Always: []gabionhttp.Fault{{Kind: "errors", Share: 0.5}}, Draw: func() float64 { return 0 },
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Injected: func(*http.Request, gabionhttp.Fault) { told++ },
		}
		for range 180 {
			came(f.RoundTrip(asking(t, "")))
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 3 || told != 180 || f.Count() != 180 {
			t.Errorf("%d warnings, told %d times, counted %d:\n%s", n, told, f.Count(), log.String())
		}
		if !strings.Contains(log.String(), `always="errors; share=50%"`) || !strings.Contains(log.String(), "since_last_warning=60") {
			t.Error(log.String())
		}
		log.Reset()
		off := &gabionhttp.Faults{Base: new(below), Logger: f.Logger}
		came(off.RoundTrip(asking(t, "errors")))
		if log.Len() > 0 {
			t.Errorf("one that is off says %s", log.String())
		}
	})
}

// Under a Transport every attempt meets faults, and gabion takes them for real.
func TestFaultsUnderATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := &gabionhttp.Faults{Base: new(below), Always: []gabionhttp.Fault{{Kind: "down", Share: 0.5}}, Logger: quiet(), Draw: func() float64 {
			n++
			return float64(min(n-1, 2)) / 3 // the first two attempts
		}}
		d := gabion.New("x", gabiontest.FreeRetries(policy.Policy{Retry: policy.Retry{Attempts: 3}}))
		r := asking(t, "")
		r.Method = http.MethodPost // never sent, so that even this may be sent again
		resp, err := (&gabionhttp.Transport{Dependency: d, Base: f}).RoundTrip(r)
		if got := came(resp, err); got != "200 unmarked" || f.Count() != 2 {
			t.Errorf("%s, %d faults: %+v", got, f.Count(), err)
		}
	})
}

func TestMistakesInFaults(t *testing.T) {
	for text, want := range map[string]string{
		"error":                               "unknown fault \"error\"\n  | error\n  | ^ did you mean errors?",
		"errors; shar=20%":                    "has no key \"shar\"\n  | errors; shar=20%\n  |         ^ did you mean share?",
		"errors, slow":                        "slow needs add",
		"slow; add=200":                       "is no duration",
		"slow; add=1h":                        "is no duration of at most 10m",
		"errors; share=20":                    "is no share",
		"errors; share=120%":                  "is no share",
		"errors; share=0%":                    "is no share",
		"errors; status=200":                  "is no status of an error",
		"errors; status":                      "status has no value",
		"errors; share=1%; share=2%":          "twice",
		"reset; status=503":                   "reset has no key",
		"errors; after_work=yes":              "neither true nor false",
		"errors,":                             "unknown fault \"\"",
		strings.Repeat("reset, ", 8) + "down": "more than 8 faults",
		strings.Repeat("x", 1001):             "1001 bytes",
	} {
		if all, err := gabionhttp.ParseFaults(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v", text, all, err)
		}
	}
}

func FuzzFaults(f *testing.F) {
	for _, c := range faultCases {
		f.Add(c.fault)
	}
	f.Add("errors; sh\xffare=2\u0007%")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := gabionhttp.ParseFaults(text)
		if err != nil {
			_ = err.Error()
			return
		}
		var texts []string
		for _, x := range all {
			texts = append(texts, x.String())
		}
		again, err := gabionhttp.ParseFaults(strings.Join(texts, ", "))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%q became %q: %v", text, texts, err)
		}
		for i := range all {
			if again[i].String() != texts[i] {
				t.Errorf("%q became %q", texts[i], again[i])
			}
		}
	})
}

func ExampleFaults() {
	faults, err := gabionhttp.ParseFaults("errors; status=503; share=100%")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := http.Client{Transport: &gabionhttp.Faults{Always: faults, Logger: slog.New(slog.DiscardHandler)}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, resp.Header.Get(gabionhttp.HeaderInjected))
	// Output: 503 errors; status=503; share=100%
}
