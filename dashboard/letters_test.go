package dashboard

import (
	"context"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A box notes what it is asked.
type box struct{ asked []string }

func (b *box) List(w http.ResponseWriter, r *http.Request)   { b.note("list", r.URL.Query()) }
func (b *box) Letter(w http.ResponseWriter, r *http.Request) { b.note("letter", r.URL.Query()) }
func (b *box) Act(w http.ResponseWriter, r *http.Request)    { b.note("act", nil) }
func (b *box) note(what string, query url.Values)            { b.asked = append(b.asked, what+" "+query.Encode()) }

func (b *box) Table(_ context.Context, query url.Values) template.HTML {
	b.note("table", query)
	return "<p>two letters</p>"
}

func actAs(p *Page, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/debug/api/v1/letter-act", strings.NewReader(`{"action":"drop"}`))
	r.Host = "page.example"
	r.Header.Set("Origin", "http://page.example")
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func lettersPage(t *testing.T, l Letters, overrides bool) *Page {
	t.Helper()
	p := New(Config{Registry: newRegistry(t, "bank"), Letters: l, AllowOverrides: overrides})
	t.Cleanup(func() { p.Close() })
	return p
}

func TestTheTabOfLettersIsAsked(t *testing.T) {
	b := &box{}
	p := lettersPage(t, b, false)
	ask(p, "GET", "/debug/api/v1/letters?group=billing")
	ask(p, "GET", "/debug/api/v1/letter?id=1")
	if text := ask(p, "GET", "/debug/").Body.String(); strings.Contains(text, "two letters") || !strings.Contains(text, `href="?letters"`) {
		t.Error("the table of dependencies links to the letters and does not ask for them")
	}
	if text := ask(p, "GET", "/debug/?letters&from=2").Body.String(); !strings.Contains(text, "<p>two letters</p>") {
		t.Error(text)
	}
	if got := strings.Join(b.asked, ", "); got != "list group=billing, letter id=1, table from=2&letters=" {
		t.Error(got)
	}
	if !strings.Contains(ask(p, "GET", "/api/v1/state").Body.String(), `"letters":true`) {
		t.Error("the stream does not say that there is a tab")
	}
}

func TestActsOnLettersAreGuarded(t *testing.T) {
	for _, c := range []struct {
		fact     string
		readOnly bool
		headers  map[string]string
		want     int
	}{
		{"from this page", false, nil, 200},
		{"on a page that is read-only", true, nil, 403},
		{"from another site", false, map[string]string{"Origin": "https://evil.example"}, 403},
		{"from a sibling site", false, map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"as a form", false, map[string]string{"Content-Type": "text/plain"}, 415},
	} {
		t.Run(c.fact, func(t *testing.T) {
			b := &box{}
			w := actAs(lettersPage(t, b, !c.readOnly), c.headers)
			if w.Code != c.want || (len(b.asked) == 1) != (c.want == 200) {
				t.Errorf("%d %s, %d acts; want %d", w.Code, w.Body, len(b.asked), c.want)
			}
		})
	}
	b := &box{}
	if w := ask(lettersPage(t, b, true), "GET", "/api/v1/letter-act"); w.Code != 405 || b.asked != nil {
		t.Errorf("GET: %d", w.Code)
	}
}

func TestWithoutAStoreThereIsNoTab(t *testing.T) {
	p := lettersPage(t, nil, true)
	for _, path := range []string{"/api/v1/letters", "/api/v1/letter?id=1"} {
		if w := ask(p, "GET", path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := actAs(p, nil); w.Code != 404 {
		t.Errorf("%d", w.Code)
	}
	if text := ask(p, "GET", "/api/v1/state").Body.String(); strings.Contains(text, `"letters"`) {
		t.Error(text)
	}
	if text := ask(p, "GET", "/?letters").Body.String(); strings.Contains(text, `href="?letters"`) {
		t.Error(text)
	}
}
