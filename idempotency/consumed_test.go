package idempotency

import (
	"bytes"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A request whose body a layer outside has consumed is refused: its fingerprint would be
// that of nothing, and amount=5000 would get the answer of amount=5.
func TestConsumedBodyIsRefused(t *testing.T) { overWires(t, consumedBodyIsRefused) }

func consumedBodyIsRefused(t *testing.T, wire string) {
	urlencoded := func(amount string) (string, string) {
		return "application/x-www-form-urlencoded", "amount=" + amount
	}
	multi := func(amount string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		w.WriteField("amount", amount)
		w.Close()
		return w.FormDataContentType(), b.String()
	}
	json := func(amount string) (string, string) { return "application/json", `{"amount":` + amount + `}` }
	bare := func(amount string) (string, string) { return "", amount }
	form := func(r *http.Request) { r.ParseForm() }
	parts := func(r *http.Request) { r.ParseMultipartForm(1 << 20) }
	reader := func(r *http.Request) { // reads the first part alone
		if m, err := r.MultipartReader(); err == nil {
			m.NextPart()
		}
	}
	all := func(r *http.Request) { io.ReadAll(r.Body) }
	restores := func(parse func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			parse(r)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
	}
	emptied := func(r *http.Request) {
		r.ParseForm()
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for _, c := range []struct {
		name  string
		body  func(string) (string, string)
		outer func(*http.Request)
		runs  int64 // of requests with amounts 5 and 5000; zero: refused
	}{
		{"a form is parsed", urlencoded, form, 0},
		{"a form is parsed as multipart", urlencoded, parts, 0},
		{"a form is parsed and the body taken away", urlencoded, emptied, 0},
		{"a multipart form is parsed", multi, parts, 0},
		{"a multipart form is begun", multi, reader, 0},
		{"JSON is read", json, all, 0},
		{"a form is parsed and put back", urlencoded, restores(form), 1},
		{"a multipart form is parsed and put back", multi, restores(parts), 1},
		{"JSON is asked for a form", json, form, 1},
		{"JSON is asked for a multipart form", json, parts, 1},
		{"something without a type is asked for a form", bare, form, 1},
		{"no reader", urlencoded, func(*http.Request) {}, 1},
	} {
		for _, length := range []string{"known", "unknown"} {
			t.Run(c.name+", length "+length, func(t *testing.T) {
				r := newRig(t, Config{}, answer(201, "done"))
				r.wire = serveOver(t, wire, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					c.outer(req)
					r.h.ServeHTTP(w, req)
				}))
				for _, amount := range []string{"5", "5000"} {
					kind, body := c.body(amount)
					req := post("k", body)
					if kind != "" {
						req.Header.Set("Content-Type", kind)
					}
					if length == "unknown" {
						req.Body, req.ContentLength = io.NopCloser(unknownLength(body)), -1
					}
					w := r.send(req)
					switch {
					case c.runs == 0:
						r.wantProblem(w, 500, problemBodyConsumed)
					case amount == "5" && w.Code != 201, amount == "5000" && w.Code != 422:
						t.Errorf("amount %s: %d %s", amount, w.Code, w.Body)
					}
				}
				r.wantRuns(c.runs)
				if n := r.seen.count(eventRefused); c.runs == 0 && n != 2 {
					t.Errorf("told %d times", n)
				}
			})
		}
	}
}

// An empty body stays empty, however it is sent and whether or not a form was parsed from it.
func TestRequestsWithoutABodyAreNotConsumed(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int64
		kind   string
		form   url.Values
	}{
		{"no body", 0, "", nil},
		{"no body, with a type", 0, "application/json", nil},
		{"no body, a form was looked for", 0, "application/x-www-form-urlencoded", url.Values{}},
		{"unknown length", -1, "", nil},
		{"unknown length, an empty form was parsed", -1, "application/x-www-form-urlencoded", url.Values{}},
	} {
		r := newRig(t, Config{}, answer(201, "done"))
		req := post("k", "", "Content-Type", c.kind)
		if c.kind == "" {
			req.Header.Del("Content-Type")
		}
		req.Body, req.ContentLength, req.PostForm = io.NopCloser(strings.NewReader("")), c.length, c.form
		if w := r.send(req); w.Code != 201 {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
}

// Without an observer it is logged.
func TestConsumedBodyIsLogged(t *testing.T) {
	var text strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)
	r := newRig(t, Config{}, answer(201, "done"))
	r.h.terms.Observer = nil
	for range 3 {
		req := post("k", "amount=5", "Content-Type", "application/x-www-form-urlencoded")
		req.ParseForm()
		r.wantProblem(r.send(req), 500, problemBodyConsumed)
	}
	if n := strings.Count(text.String(), string(problemBodyConsumed)); n != 1 {
		t.Errorf("logged %d times: %s", n, text.String())
	}
}

// A large body that is claimed by its digest can't have been parsed before either.
func TestConsumedLargeBodyIsRefused(t *testing.T) {
	u := newUploads(t, "", Config{}, answer(201, "done"))
	req := post("k", large, headerDigest, sum256(large), "Content-Type", "application/x-www-form-urlencoded")
	req.ParseForm()
	u.wantProblem(u.send(req), 500, problemBodyConsumed)
	u.wantRuns(0)
}
