package gabionhttp_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// A body that is too long to be kept is sent again if it can be rewound; otherwise the
// error says which body it was.
func TestLongBodiesAreRewound(t *testing.T) {
	text := strings.Repeat("0123456789", 20_000) // S3's PutObject of 200 KB
	name := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(name, []byte("head"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(t *testing.T) io.ReadCloser {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seek(4, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		return f
	}
	for what, tt := range map[string]struct {
		body   func(*testing.T) io.ReadCloser
		length int64
		again  bool
		says   string
	}{
		"a file":                                {file, 200_000, true, ""},
		"a file of unknown length":              {file, -1, true, ""},
		"a reader that http.NewRequest wrapped": {func(*testing.T) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }, 200_000, true, ""},
		"no seeker":                             {func(*testing.T) io.ReadCloser { return io.NopCloser(io.MultiReader(strings.NewReader(text))) }, 200_000, false, "of 200000 bytes has no GetBody, is no io.Seeker, and is longer than HTTP.ReplayLimit, 65536 bytes"},
		"no seeker, of unknown length":          {func(*testing.T) io.ReadCloser { return io.NopCloser(io.MultiReader(strings.NewReader(text))) }, -1, false, "of unknown length has no GetBody"},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, connection lost %v", what, lost), func(t *testing.T) {
				var mu sync.Mutex
				var arrived []string
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					got, _ := io.ReadAll(r.Body)
					mu.Lock()
					defer mu.Unlock()
					if arrived = append(arrived, string(got)); len(arrived) > 2 {
						return
					}
					if lost {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(503)
				})
				c, d := client(t, eager(), base(t, s))
				req := request(t, "PUT", s.URL, "")
				body := &closes{ReadCloser: tt.body(t)}
				req.Body, req.ContentLength = body.ReadCloser, tt.length
				if f, ok := body.ReadCloser.(*os.File); ok {
					req.Body = struct {
						io.Seeker
						*closes
					}{f, body}
				}
				resp, err := c.Do(req)
				if err == nil {
					read(t, resp)
					if v := gabionhttp.Verdict(resp); v != nil {
						err = v
					}
				}
				mu.Lock()
				defer mu.Unlock()
				want := map[bool]int{true: 3, false: 1}[tt.again]
				if len(arrived) != want || tt.again != (err == nil) {
					t.Fatalf("sent %d times: %v", len(arrived), err)
				}
				for _, got := range arrived {
					if got != text {
						t.Errorf("%d bytes arrived", len(got))
					}
				}
				if err != nil && (gabion.ReasonOf(err) != policy.BodyNotRewindable || !strings.Contains(err.Error(), tt.says)) {
					t.Errorf("ended with %v", err)
				}
				if body.n != 1 && body.n != 0 {
					t.Errorf("the body was closed %d times", body.n)
				}
				gabiontest.NothingHeld(t, d)
			})
		}
	}
}

// closes counts.
type closes struct {
	io.ReadCloser
	n int
}

func (c *closes) Close() error { c.n++; return c.ReadCloser.Close() }

// Without a Base connections are kept for as many calls as may be out. With one that
// keeps fewer, that is said once.
func TestConnectionsAreKept(t *testing.T) {
	var said bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	const calls, rounds = 20, 5
	for _, own := range []bool{true, false} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })
		tr := &gabionhttp.Transport{Dependency: gabion.New("shop", with(eager(), func(p *policy.Policy) { p.Bulkhead.Limit = calls }))}
		if own {
			tr.Base = &http.Transport{}
		}
		t.Cleanup(tr.CloseIdleConnections)
		for range rounds {
			var all sync.WaitGroup
			var out sync.WaitGroup
			out.Add(calls)
			for range calls {
				all.Go(func() {
					resp, err := tr.RoundTrip(request(t, "GET", s.URL, ""))
					out.Done()
					if err != nil {
						t.Error(err)
						return
					}
					out.Wait()
					read(t, resp)
				})
			}
			all.Wait()
		}
		if n := s.conns.Load(); (n > calls) != own {
			t.Errorf("Base set %v: %d connections for %d calls at once", own, n, calls)
		}
		if n := strings.Count(said.String(), "MaxIdleConnsPerHost to 20"); n != map[bool]int{true: 1}[own] {
			t.Errorf("Base set %v, and it said %q", own, said.String())
		}
		said.Reset()
		tr.CloseIdleConnections()
	}
}
