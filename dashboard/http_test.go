package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	breakers "github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/policy"
)

func newRegistry(t testing.TB, names ...string) *gabion.Registry {
	t.Helper()
	policies := map[string]policy.Policy{}
	for _, name := range names {
		policies[name] = policy.Policy{}
	}
	r, err := gabion.NewRegistry(policies)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestEveryAnswerIsLockedDown(t *testing.T) {
	p := New(Config{Registry: newRegistry(t, "bank")})
	defer p.Close()
	paths := []string{"/", "/api/v1/state", "/api/v1/stream?once=1", "/api/v1/dependency?name=bank", "/api/v1/dependency?name=x", "/api/v1/measured", "/nothing"}
	for name := range types {
		paths = append(paths, "/static/"+name)
	}
	for _, path := range paths {
		w := ask(p, "GET", path)
		for name, want := range map[string]string{
			"Content-Security-Policy": contentPolicy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
	for _, must := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(contentPolicy, must) {
			t.Errorf("the policy says nothing of %s", must)
		}
	}
	if strings.Contains(contentPolicy, "unsafe") {
		t.Error("the policy is unsafe")
	}
}

// The page has no script or style in it, and asks for relative addresses alone.
func TestPageWorksUnderAnyPath(t *testing.T) {
	p := New(Config{Registry: newRegistry(t, "bank")})
	defer p.Close()
	text := ask(p, "GET", "/").Body.String()
	if regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:`).MatchString(text) {
		t.Error("the page has script or style in it")
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "/") || strings.Contains(m[1], ":") {
			t.Errorf("%s is no relative address", m[1])
		}
		for _, prefix := range []string{"/", "/debug/gabion/", "/a/b/c/"} {
			path, _, _ := strings.Cut(prefix+m[1], "#")
			if w := ask(p, "GET", path); w.Code != 200 {
				t.Errorf("%s%s: %d", prefix, m[1], w.Code)
			}
		}
	}
	for _, name := range []string{"page.js", "tile.js", "detail.js", "chart.js", "replay.js", "letters.js", "words.js"} {
		script := ask(p, "GET", "/x/static/"+name).Body.String()
		for _, m := range regexp.MustCompile(`(?:from|fetch\(|EventSource\()\s*"([^"]*)"`).FindAllStringSubmatch(script, -1) {
			if strings.HasPrefix(m[1], "/") {
				t.Errorf("%s asks for %s", name, m[1])
			}
		}
		if strings.Contains(script, "innerHTML") || strings.Contains(script, "insertAdjacentHTML") || strings.Contains(script, "eval(") {
			t.Errorf("%s writes markup", name)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/stripped/", http.StripPrefix("/stripped", p))
	mux.Handle("/whole/", p)
	for path, want := range map[string]int{
		"/stripped/": 200, "/stripped/api/v1/state": 200, "/whole/": 200, "/whole/static/page.css": 200,
		"/whole/api/v1/state": 200, "/whole/nothing": 404, "/whole": 307, "/whole/static/index.html": 404, "/whole/static/../page.go": 307,
	} {
		if w := ask(mux, "GET", path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestMethods(t *testing.T) {
	p := New(Config{Registry: newRegistry(t, "bank"), AllowOverrides: true})
	defer p.Close()
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/", 200}, {"HEAD", "/", 200}, {"POST", "/", 405}, {"DELETE", "/api/v1/state", 405},
		{"GET", "/api/v1/override", 405}, {"PUT", "/api/v1/override", 405},
	} {
		if w := ask(p, c.method, c.path); w.Code != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, w.Code, c.want)
		}
	}
}

func TestOverridesAreGuarded(t *testing.T) {
	const good = `{"dependency":"bank","action":"force_open","minutes":5}`
	for _, c := range []struct {
		name    string
		closed  bool // the page is read-only
		host    string
		headers map[string]string
		body    string
		want    int
		open    bool
	}{
		{"from this page", false, "", nil, good, 200, true},
		{"on a page that is read-only", true, "", nil, good, 403, false},
		{"without Origin, as a program would", false, "", map[string]string{"Origin": ""}, good, 403, false},
		{"from another site", false, "", map[string]string{"Origin": "https://evil.example"}, good, 403, false},
		{"from a sandboxed frame", false, "", map[string]string{"Origin": "null"}, good, 403, false},
		{"from another port of this host", false, "", map[string]string{"Origin": "http://page.example:8080"}, good, 403, false},
		{"from a name that begins alike", false, "", map[string]string{"Origin": "http://page.example.evil.example"}, good, 403, false},
		{"from this page with a port", false, "page.example:8080", map[string]string{"Origin": "http://page.example:8080"}, good, 200, true},
		{"from a sibling site", false, "", map[string]string{"Sec-Fetch-Site": "same-site"}, good, 403, false},
		{"from elsewhere with this Origin", false, "", map[string]string{"Sec-Fetch-Site": "cross-site"}, good, 403, false},
		{"from this page, as new browsers say it", false, "", map[string]string{"Sec-Fetch-Site": "same-origin"}, good, 200, true},
		{"as a form", false, "", map[string]string{"Content-Type": "text/plain"}, good, 415, false},
		{"of an unknown dependency", false, "", nil, `{"dependency":"x","action":"force_open","minutes":5}`, 404, false},
		{"of an unknown breaker", false, "", nil, `{"dependency":"bank","partition":"x","action":"force_open","minutes":5}`, 409, false},
		{"with an unknown action", false, "", nil, `{"dependency":"bank","action":"explode","minutes":5}`, 400, false},
		{"without an end", false, "", nil, `{"dependency":"bank","action":"force_open"}`, 400, false},
		{"for ever", false, "", nil, `{"dependency":"bank","action":"force_open","minutes":100000}`, 400, false},
		{"that is no JSON", false, "", nil, `force_open`, 400, false},
		{"that is too long", false, "", nil, `{"dependency":"` + strings.Repeat("x", maxOverride) + `"}`, 400, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			registry := newRegistry(t, "bank")
			p := New(Config{Registry: registry, AllowOverrides: !c.closed})
			defer p.Close()
			w := post(p, or(c.host, "page.example"), c.headers, c.body)
			if w.Code != c.want || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.want)
			}
			d, _ := registry.Get("bank")
			if open := d.Stats().Main.Breaker.State == policy.StateForcedOpen; open != c.open {
				t.Errorf("forced open is %v, want %v", open, c.open)
			}
		})
	}
}

func post(h http.Handler, host string, headers map[string]string, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/debug/gabion/api/v1/override", strings.NewReader(body))
	r.Host = host
	r.Header.Set("Origin", "http://page.example")
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
		if value == "" {
			r.Header.Del(name)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// An override is an event with its author and its end, and ends by itself.
func TestOverridesAreToldAndEnd(t *testing.T) {
	for _, c := range []struct {
		action, state, text string
	}{
		{"force_open", "forced_open", "forced open by hand (page, 192.0.2.1): every call is refused"},
		{"disable", "disabled", "disabled by hand (page, 192.0.2.1): every call is let through"},
		{"observe_only", "observe_only", "only observing by hand (page, 192.0.2.1): nothing is refused"},
		{"retries_off", "closed", "retries and hedges are switched off (page, 192.0.2.1)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			registry := newRegistry(t, "bank")
			p := New(Config{Registry: registry, AllowOverrides: true})
			defer p.Close()
			d, _ := registry.Get("bank")
			d.Run(t.Context(), func(context.Context) error { return nil })
			body := fmt.Sprintf(`{"dependency":"bank","action":%q,"minutes":5}`, c.action)
			if w := post(p, "page.example", nil, body); w.Code != 200 {
				t.Fatalf("%s: %d %s", c.action, w.Code, w.Body)
			}
			time.Sleep(time.Second) // of the bubble
			r := tileOf(t, p, "bank")
			end := time.Now().Add(5*time.Minute - time.Second).UnixMilli()
			if r.State != c.state || len(r.Notes) == 0 || r.Notes[0].Text != c.text || r.Notes[0].Until != end {
				t.Errorf("%s: %s %+v, want %s until %d", c.action, r.State, r.Notes, c.text, end)
			}
			time.Sleep(5 * time.Minute)
			d.Run(t.Context(), func(context.Context) error { return nil })
			time.Sleep(time.Second)
			if s := d.Stats(); s.Main.Breaker.State == policy.StateDisabled || s.Main.Breaker.State == policy.StateObserveOnly || s.RetriesOff {
				t.Errorf("%s has not ended: %+v", c.action, s)
			}
		})
	}
}

func tileOf(t *testing.T, p *Page, name string) row {
	t.Helper()
	var f struct{ Tiles []row }
	if err := json.Unmarshal(ask(p, "GET", "/api/v1/state").Body.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Tiles {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no tile for %s among %d", name, len(f.Tiles))
	return row{}
}

// The JSON that programs read.
func TestStateGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := newRegistry(t, "bank", "unused")
		p := New(Config{Registry: registry, Title: "shop"})
		defer p.Close()
		d, _ := registry.Get("bank")
		for n := range 4 {
			d.Run(t.Context(), func(context.Context) error {
				time.Sleep(10 * time.Millisecond)
				if n == 3 {
					return fmt.Errorf("secret")
				}
				return nil
			})
		}
		p.Observe(t.Context(), gabion.Event{Kind: policy.KindAttemptSent, Dependency: "by hand", Attempt: 1, Call: 1})
		p.Observe(t.Context(), gabion.Event{Kind: policy.KindReturned, Dependency: "by hand", Attempt: 1, Call: 1})
		time.Sleep(1500 * time.Millisecond)
		text := ask(p, "GET", "/api/v1/state").Body.Bytes()
		if strings.Contains(string(text), "secret") {
			t.Error("the text of an error is shown")
		}
		var f map[string]any
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		for _, tile := range f["tiles"].([]any) {
			history := tile.(map[string]any)["history"].([]any)
			if len(history) != historySeconds-1 {
				t.Errorf("%d seconds of history", len(history))
			}
			tile.(map[string]any)["history"] = history[len(history)-2:]
		}
		got, _ := json.MarshalIndent(f, "", "  ")
		testgolden.File(t, "testdata/state.json", string(got)+"\n")
	})
}

// Whatever a name holds, it stays a text.
func FuzzNamesStayTexts(f *testing.F) {
	for _, name := range []string{"bank", `<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "a&b", "'\"`", "\x00\xff", "</noscript>", "</table>", "{{.}}"} {
		f.Add(name, name)
	}
	f.Fuzz(func(t *testing.T, name, code string) {
		p := New(Config{Title: name})
		defer p.Close()
		p.Observe(t.Context(), gabion.Event{Kind: policy.KindAttemptSettled, Dependency: name, Class: policy.ClassServer, Code: code, Partition: code})
		p.Observe(t.Context(), gabion.Event{Kind: policy.KindBreakerMoved, Dependency: name, Partition: code, To: policy.StateOpen, Code: code})
		plain := New(Config{Title: "x"})
		defer plain.Close()
		plain.Observe(t.Context(), gabion.Event{Kind: policy.KindAttemptSettled, Dependency: "x", Class: policy.ClassServer, Code: "x", Partition: "x"})
		plain.Observe(t.Context(), gabion.Event{Kind: policy.KindBreakerMoved, Dependency: "x", Partition: "x", To: policy.StateOpen, Code: "x"})
		tags := regexp.MustCompile(`<[^>]*>`)
		got := tags.FindAllString(ask(p, "GET", "/").Body.String(), -1)
		want := tags.FindAllString(ask(plain, "GET", "/").Body.String(), -1)
		if strings.Join(got, "") != strings.Join(want, "") {
			t.Errorf("the name %q and the code %q make markup:\n%s\nwant\n%s", name, code, got, want)
		}
		state := ask(p, "GET", "/api/v1/state").Body.Bytes()
		if !json.Valid(state) || strings.ContainsAny(string(state), "<>") {
			t.Errorf("the JSON is %s", state)
		}
		io.Discard.Write(state)
	})
}

// The table without script says which timeout it was, and since when a breaker is open.
func TestTableTellsTimeoutsApart(t *testing.T) {
	p := New(Config{})
	defer p.Close()
	e := gabion.Event{Kind: policy.KindAttemptSettled, Dependency: "bank", Attempt: 1, Class: policy.ClassTimeout}
	for _, e.Reason = range []policy.Reason{policy.AttemptTimeout, policy.IdleTimeout} {
		p.Observe(t.Context(), e)
	}
	p.Observe(t.Context(), gabion.Event{
		Kind: policy.KindBreakerMoved, Dependency: "bank", To: policy.StateOpen, Cause: breakers.Consecutive, Numbers: &policy.Numbers{Rule: 20},
	})
	text := ask(p, "GET", "/").Body.String()
	for _, want := range []string{"timeout, attempt timeout 1×", "timeout, idle timeout 1×", "open since ", "): 20 failures in a row"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
}

// What a program may ask for says what was counted, and the settings in force.
func TestMeasuredIsWhatWasCounted(t *testing.T) {
	r := newRegistry(t, "bank", "stock")
	p := New(Config{Registry: r, Settings: func(name string) []policy.Setting {
		if name == "bank" {
			return []policy.Setting{{Path: "retry.attempts", Value: "3", Source: "gabion.yaml:4"}}
		}
		return nil
	}})
	defer p.Close()
	bank, _ := r.Get("bank")
	for range 3 {
		if _, err := gabion.Do(t.Context(), bank, func(context.Context) (int, error) { return 0, nil }); err != nil {
			t.Fatal(err)
		}
	}
	w := ask(p, "GET", "/api/v1/measured")
	var got struct {
		Version      int
		Dependencies []measured
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != 1 || len(got.Dependencies) != 2 {
		t.Fatalf("%s", w.Body)
	}
	b, s := got.Dependencies[0], got.Dependencies[1]
	if b.Calls != 3 || b.Succeeded != 3 || b.Attempts != 3 || b.Latency.Samples != 3 || b.State != "closed" || len(b.Settings) != 1 || b.Slots.Limit != 100 {
		t.Errorf("%+v", b)
	}
	if s.Calls != 0 || len(s.Settings) < 20 {
		t.Errorf("%+v", s)
	}
}
