package gabionhttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/policy"
)

func TestTimeLeft(t *testing.T) {
	all := []string{HeaderDeadline, HeaderEnvoyTimeout, HeaderGRPCTimeout}
	tests := []struct {
		name   string
		header []string
		names  []string
		want   time.Duration
		ok     bool
		bad    int
	}{
		{"nothing", nil, nil, 0, false, 0},
		{"milliseconds", []string{HeaderDeadline, "1500"}, nil, 1500 * time.Millisecond, true, 0},
		{"expired", []string{HeaderDeadline, "0"}, nil, 0, true, 0},
		{"more than a duration holds", []string{HeaderDeadline, "9223372036855"}, nil, math.MaxInt64, true, 0},
		{"more digits than a number holds", []string{HeaderDeadline, strings.Repeat("9", 99)}, nil, math.MaxInt64, true, 0},
		{"negative is malformed", []string{HeaderDeadline, "-5"}, nil, 0, false, 1},
		{"fractions are malformed", []string{HeaderDeadline, "1.5"}, nil, 0, false, 1},
		{"a unit is malformed", []string{HeaderDeadline, "5ms"}, nil, 0, false, 1},
		{"empty is malformed", []string{HeaderDeadline, ""}, nil, 0, false, 1},
		{"others are read only when named", []string{HeaderEnvoyTimeout, "5", HeaderGRPCTimeout, "5m"}, nil, 0, false, 0},
		{"Envoy's", []string{HeaderEnvoyTimeout, "250"}, all, 250 * time.Millisecond, true, 0},
		{"names in any case", []string{HeaderEnvoyTimeout, "250"}, []string{"x-envoy-expected-rq-timeout-ms"}, 250 * time.Millisecond, true, 0},
		{"the least counts", []string{HeaderDeadline, "300", HeaderGRPCTimeout, "100m"}, all, 100 * time.Millisecond, true, 0},
		{"the malformed one does not", []string{HeaderDeadline, "300", HeaderGRPCTimeout, "100"}, all, 300 * time.Millisecond, true, 1},
		{"of two lines the least counts", []string{HeaderDeadline, "60000", HeaderDeadline, "100"}, nil, 100 * time.Millisecond, true, 0},
		{"of two lines the least counts, in any order", []string{HeaderDeadline, "100", HeaderDeadline, "60000"}, nil, 100 * time.Millisecond, true, 0},
		{"a second line that is malformed is only counted", []string{HeaderDeadline, "100", HeaderDeadline, "x"}, nil, 100 * time.Millisecond, true, 1},
		{"a first line that is malformed hides no second", []string{HeaderDeadline, "x", HeaderDeadline, "100"}, nil, 100 * time.Millisecond, true, 1},
		{"of two lines of Envoy's the least counts", []string{HeaderEnvoyTimeout, "300", HeaderEnvoyTimeout, "200"}, all, 200 * time.Millisecond, true, 0},
		{"of two lines of gRPC's the least counts", []string{HeaderGRPCTimeout, "1S", HeaderGRPCTimeout, "200m"}, all, 200 * time.Millisecond, true, 0},
		{"the least of all lines of all headers counts", []string{HeaderDeadline, "500", HeaderDeadline, "400", HeaderEnvoyTimeout, "350", HeaderEnvoyTimeout, "900", HeaderGRPCTimeout, "1S"}, all, 350 * time.Millisecond, true, 0},
		{"gRPC hours", []string{HeaderGRPCTimeout, "2H"}, all, 2 * time.Hour, true, 0},
		{"gRPC minutes", []string{HeaderGRPCTimeout, "2M"}, all, 2 * time.Minute, true, 0},
		{"gRPC seconds", []string{HeaderGRPCTimeout, "2S"}, all, 2 * time.Second, true, 0},
		{"gRPC microseconds", []string{HeaderGRPCTimeout, "2u"}, all, 2 * time.Microsecond, true, 0},
		{"gRPC nanoseconds", []string{HeaderGRPCTimeout, "99999999n"}, all, 99999999, true, 0},
		{"gRPC hours without end", []string{HeaderGRPCTimeout, "99999999H"}, all, math.MaxInt64, true, 0},
		{"gRPC has eight digits at most", []string{HeaderGRPCTimeout, "100000000n"}, all, 0, false, 1},
		{"gRPC needs digits", []string{HeaderGRPCTimeout, "m"}, all, 0, false, 1},
		{"gRPC knows no days", []string{HeaderGRPCTimeout, "1D"}, all, 0, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, bad := TimeLeft(header(tt.header...), tt.names...)
			if got != tt.want || ok != tt.ok || bad != tt.bad {
				t.Errorf("TimeLeft = %v, %v, %d, want %v, %v, %d", got, ok, bad, tt.want, tt.ok, tt.bad)
			}
		})
	}
}

func TestSetTimeLeft(t *testing.T) {
	all := []string{HeaderDeadline, HeaderEnvoyTimeout, HeaderGRPCTimeout}
	tests := []struct {
		name string
		left time.Duration
		want [3]string
		ok   bool
	}{
		{"rounds down", 1500*time.Millisecond + 999*time.Microsecond, [3]string{"1500", "1500", "1500999u"}, true},
		{"one millisecond is the least", time.Millisecond, [3]string{"1", "1", "1000000n"}, true},
		{"C96 less is not sent", time.Millisecond - 1, [3]string{}, false},
		{"C96 nothing is not sent", 0, [3]string{}, false},
		{"C96 less than nothing is not sent", math.MinInt64, [3]string{}, false},
		{"as long as can be", math.MaxInt64, [3]string{"9223372036854", "9223372036854", "2562047H"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := header(HeaderDeadline, "77", HeaderDeadline, "78", HeaderGRPCTimeout, "77H")
			ok := SetTimeLeft(h, tt.left, all...)
			got := [3]string{h.Get(all[0]), h.Get(all[1]), h.Get(all[2])}
			if got != tt.want || ok != tt.ok || len(h[HeaderDeadline]) > 1 {
				t.Errorf("SetTimeLeft = %v, %v, want %v, %v", h, ok, tt.want, tt.ok)
			}
		})
	}
	h := http.Header{}
	if SetTimeLeft(h, time.Second); len(h) != 1 || h.Get(HeaderDeadline) != "1000" {
		t.Errorf("own header alone: %v", h)
	}
}

func TestNextHop(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name              string
		own, left, margin time.Duration
		want              time.Duration
	}{
		{"what is left, minus a margin", 500 * ms, 300 * ms, 100 * ms, 200 * ms},
		{"own budget when that is less", 50 * ms, 300 * ms, 100 * ms, 50 * ms},
		{"no budget of one's own", 0, 300 * ms, 100 * ms, 200 * ms},
		{"C96 strictly less even without a margin", 500 * ms, 300 * ms, 0, 299 * ms},
		{"C96 strictly less with a negative margin", 500 * ms, 300 * ms, -time.Second, 299 * ms},
		{"half of little, where the margin is the default's or less", 500 * ms, 100 * ms, 100 * ms, 50 * ms},
		{"C96 a longer margin eats it all", 500 * ms, 101 * ms, 101 * ms, 0},
		{"C96 nothing left", 500 * ms, 0, 0, 0},
		{"less than nothing left", 500 * ms, math.MinInt64, 100 * ms, 0},
		{"no end in sight", 500 * ms, math.MaxInt64, 0, 500 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := NextHop(tt.own, tt.left, tt.margin); got != tt.want {
				t.Errorf("NextHop = %v, want %v", got, tt.want)
			}
		})
	}
}

// C96: through any chain of hops the time in the headers strictly decreases, and
// the chain ends.
func FuzzHops(f *testing.F) {
	f.Add(int64(15*time.Second), int64(100*time.Millisecond), uint64(1))
	f.Add(int64(math.MaxInt64), int64(0), uint64(2))
	f.Add(int64(3), int64(-1), uint64(3))
	names := []string{HeaderDeadline, HeaderEnvoyTimeout, HeaderGRPCTimeout}
	f.Fuzz(func(t *testing.T, first, margin int64, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		left := time.Duration(first)
		for range 50 {
			name := names[rng.IntN(3)]
			h := http.Header{}
			next := NextHop(time.Duration(rng.Int64N(int64(time.Minute))), left, time.Duration(margin))
			if !SetTimeLeft(h, next, name) {
				if len(h) > 0 || next >= time.Millisecond {
					t.Fatalf("%v left and %v sent", next, h)
				}
				return
			}
			got, ok, bad := TimeLeft(h, name)
			if !ok || bad != 0 || got <= 0 || got >= left || got > next {
				t.Fatalf("%v became %v (%v, %d) by %v", left, got, ok, bad, h)
			}
			left = got
		}
	})
}

func FuzzTimeLeft(f *testing.F) {
	for _, s := range []string{"1500", "-1", "5m", "99999999H", "0", "١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, name := range []string{HeaderDeadline, HeaderGRPCTimeout} {
			d, ok, bad := TimeLeft(http.Header{name: {s}}, name)
			if d < 0 || ok == (bad == 1) {
				t.Fatalf("%s %q = %v, %v, %d", name, s, d, ok, bad)
			}
		}
		// A number that strconv reads and no sign spoils must be read alike.
		if n, err := strconv.ParseUint(s, 10, 32); err == nil && !strings.HasPrefix(s, "+") {
			if d, ok := parseLeft(HeaderDeadline, s); !ok || d != time.Duration(n)*time.Millisecond {
				t.Fatalf("%q = %v, %v", s, d, ok)
			}
		}
	})
}

// serve sends one request with the given header through d and returns the answer
// and what the work saw of its deadline.
func serve(d *Deadline, h http.Header) (code int, left time.Duration, bounded bool, worked bool) {
	d.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := r.Context().Deadline()
		left, bounded, worked = time.Until(at), ok, true
	})
	r := httptest.NewRequest("GET", "/", nil)
	r.Header = h
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Code, left, bounded, worked
}

func TestDeadline(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name      string
		d         Deadline
		header    []string
		worked    bool
		left      time.Duration // 0: unbounded
		malformed int64
	}{
		{"no header, no bound", Deadline{}, nil, true, 0, 0},
		{"the caller's time", Deadline{}, []string{HeaderDeadline, "200"}, true, 200 * ms, 0},
		{"our bound when that is less", Deadline{Max: 100 * ms}, []string{HeaderDeadline, "200"}, true, 100 * ms, 0},
		{"our bound when there is no other", Deadline{Max: 100 * ms}, nil, true, 100 * ms, 0},
		{"the caller's time within our bound", Deadline{Max: time.Second}, []string{HeaderDeadline, "200"}, true, 200 * ms, 0},
		{"just enough", Deadline{Margin: 50 * ms}, []string{HeaderDeadline, "50"}, true, 50 * ms, 0},
		{"doomed", Deadline{Margin: 50 * ms}, []string{HeaderDeadline, "49"}, false, 0, 0},
		{"C96 expired", Deadline{}, []string{HeaderDeadline, "0"}, false, 0, 0},
		{"malformed is ignored and counted", Deadline{}, []string{HeaderDeadline, "soon"}, true, 0, 1},
		{"gRPC's when named", Deadline{Headers: []string{HeaderGRPCTimeout}}, []string{HeaderGRPCTimeout, "3S"}, true, 3 * time.Second, 0},
		{"gRPC's when not named", Deadline{}, []string{HeaderGRPCTimeout, "3S"}, true, 0, 0},
		{"longer than a life", Deadline{}, []string{HeaderDeadline, strings.Repeat("9", 30)}, true, math.MaxInt64, 0},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				code, left, bounded, worked := serve(&tt.d, header(tt.header...))
				saved := int64(0)
				want := http.StatusOK
				if !tt.worked {
					saved, want = 1, http.StatusGatewayTimeout
				}
				if code != want || worked != tt.worked || tt.d.Saved() != saved || tt.d.Malformed() != tt.malformed {
					t.Errorf("code %d, worked %v, saved %d, malformed %d", code, worked, tt.d.Saved(), tt.d.Malformed())
				}
				if bounded != (tt.left > 0) || bounded && left != tt.left {
					t.Errorf("left %v (%v), want %v", left, bounded, tt.left)
				}
			})
		})
	}
}

func TestDeadlineSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Deadline{Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if err := r.Context().Err(); err != context.DeadlineExceeded {
				t.Errorf("err = %v", err)
			}
			if cause := context.Cause(r.Context()); cause != errDeadline || !errors.Is(cause, context.DeadlineExceeded) {
				t.Errorf("cause = %v", cause)
			}
		})}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(HeaderDeadline, "10")
		d.ServeHTTP(httptest.NewRecorder(), r)
	})
}

func TestADeadlineWithoutAUnitSaysSo(t *testing.T) {
	for want, d := range map[string]*Deadline{
		"gabionhttp: Deadline.Max is 30ns: did you mean 30 * time.Second?\n":          {Max: 30},
		"gabionhttp: Deadline.Margin is 50ns: did you mean 50 * time.Millisecond?\n":  {Margin: 50},
		"gabionhttp: a Deadline of Margin 0s and Max -1ns: neither can be negative\n": {Max: -1},
	} {
		w := httptest.NewRecorder()
		d.Next = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") })
		d.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != http.StatusInternalServerError || w.Body.String() != want {
			t.Errorf("%d %q, want %q", w.Code, w.Body, want)
		}
	}
}

func TestRefusalStopsRetries(t *testing.T) {
	server := httptest.NewServer(&Deadline{Next: http.NotFoundHandler()})
	defer server.Close()
	req, _ := http.NewRequest("GET", server.URL, nil)
	req.Header.Set(HeaderDeadline, "0")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if o := outcomeOf(resp, 0, new(policy.HTTP), atNoon); !o.Stop || resp.StatusCode != 504 {
		t.Errorf("%d means %+v", resp.StatusCode, o)
	}
}

// E2 and T7: the time decreases over real hops, and work stops where none is
// left.
func TestDeadlineOverRealHops(t *testing.T) {
	var mu sync.Mutex
	var seen []time.Duration
	var worked atomic.Int32
	var server *httptest.Server
	d := &Deadline{Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		worked.Add(1)
		left, _, _ := TimeLeft(r.Header)
		mu.Lock()
		seen = append(seen, left)
		mu.Unlock()
		at, _ := r.Context().Deadline()
		req, _ := http.NewRequestWithContext(r.Context(), "GET", server.URL, nil)
		if !SetTimeLeft(req.Header, NextHop(100*time.Second, time.Until(at), 20*time.Second)) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if resp, err := server.Client().Do(req); err == nil {
			resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
		}
	})}
	server = httptest.NewServer(d)
	defer server.Close()
	req, _ := http.NewRequest("GET", server.URL, nil)
	req.Header.Set(HeaderDeadline, "600000")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	// 600 s, at most 100 s, then 20 s less for each hop.
	if resp.StatusCode != http.StatusNoContent || worked.Load() != 6 {
		t.Errorf("%d after %d hops: %v", resp.StatusCode, worked.Load(), seen)
	}
	for i := 1; i < len(seen); i++ {
		if seen[i] >= seen[i-1] {
			t.Errorf("time grew: %v", seen)
		}
	}
}

func TestDeadlineLeavesStreamsAlone(t *testing.T) {
	more := make(chan bool)
	server := httptest.NewServer(&Deadline{Max: time.Hour, Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijack" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
			conn.Close()
			return
		}
		io.WriteString(w, "one\n")
		w.(http.Flusher).Flush()
		<-more
		io.WriteString(w, "two\n")
	})})
	defer server.Close()

	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); line != "one\n" {
		t.Errorf("got %q, %v while the stream is open", line, err)
	}
	close(more)
	if line, err := lines.ReadString('\n'); line != "two\n" {
		t.Errorf("got %q, %v", line, err)
	}

	resp, err = server.Client().Get(server.URL + "/hijack")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); string(got) != "hi" {
		t.Errorf("hijacked answer %q", got)
	}
}

func TestDeadlineCostsNothingWithoutOne(t *testing.T) {
	d := &Deadline{Next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	if n := testing.AllocsPerRun(100, func() { d.ServeHTTP(w, r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
