package letterpage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/deadletter"
	headers "github.com/gabion-go/gabion/messages/message"
)

const secret = "card 4111"

// lettersOf returns a store with three letters of billing, one of which wants a resolution, and
// one of mail.
func lettersOf(t testing.TB) (deadletter.Store, map[string]deadletter.ID) {
	t.Helper()
	m, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]deadletter.ID{}
	for _, l := range []deadletter.Letter{
		{Group: "billing", Key: "order-1", Reason: "attempts_exhausted", Attempts: 3, Source: "orders",
			Failures: []deadletter.Failure{{Attempt: 1, Message: "first"}, {Attempt: 3, Class: "network", Took: 2 * time.Second, Message: "bank: refused\n\x1b[31m\u202egnp"}}},
		{Group: "billing", Key: "order-2", Reason: "attempts_exhausted"},
		{Group: "billing", Key: "order-3", Reason: deadletter.Unknown},
		{Group: "mail", Key: "m-1", Reason: "permanent"},
	} {
		l.Payload, l.Headers = []byte(secret), headers.Headers{{Name: "Authorization", Value: secret}}
		l.ID = deadletter.LetterID(l.Group, l.Key, l.Payload)
		ids[l.Key] = l.ID
		if err := m.Put(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	return m, ids
}

func lettersPage(t testing.TB, store deadletter.Store, overrides bool) http.Handler {
	t.Helper()
	p := dashboard.New(dashboard.Config{Letters: New(store), AllowOverrides: overrides})
	t.Cleanup(func() { p.Close() })
	return p
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func lettersAt(t *testing.T, p http.Handler, query string) (v letterView) {
	t.Helper()
	w := ask(p, "GET", "/api/v1/letters"+query)
	if w.Code != 200 || strings.Contains(w.Body.String(), secret) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheTabListsLetters(t *testing.T) {
	m, ids := lettersOf(t)
	p := lettersPage(t, m, false)
	v := lettersAt(t, p, "")
	if len(v.Letters) != 4 || len(v.Groups) != 2 || v.Problem != "" {
		t.Fatalf("%+v", v)
	}
	if g := v.Groups[0]; g.Name != "billing" || g.Waiting != 3 || g.Unresolved != 1 || g.Put != 3 || g.Reasons[0] != (letterCount{letterName{Name: "attempts_exhausted"}, 2}) {
		t.Errorf("%+v", g)
	}
	if l := v.Letters[0]; l.Error != `bank: refused \u001b[31m\u202egnp` || l.Key != "order-1" {
		t.Errorf("%+v", l)
	}
	if v = lettersAt(t, p, "?group=billing&reason=outcome_unknown"); len(v.Letters) != 1 || v.Letters[0].ID != ids["order-3"] {
		t.Errorf("%+v", v.Letters)
	}
	if v = lettersAt(t, p, "?from=nonsense"); !strings.Contains(v.Problem, "The store of dead letters says: ") {
		t.Errorf("%q", v.Problem)
	}
}

func TestALetterIsShownWithoutItsContents(t *testing.T) {
	m, ids := lettersOf(t)
	p := lettersPage(t, m, true)
	w := ask(p, "GET", "/api/v1/letter?id="+string(ids["order-1"]))
	var d letterDetail
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || strings.Contains(w.Body.String(), secret) {
		t.Fatalf("%v %s", err, w.Body)
	}
	if d.Bytes != len(secret) || len(d.Hash) != 64 || len(d.Failures) != 2 || d.Failures[1].Took != 2000 || d.Headers[0] != "Authorization" {
		t.Errorf("%+v", d)
	}
	for id, want := range map[string]int{strings.Repeat("0", 32): 404, "nonsense": 404} {
		if w := ask(p, "GET", "/api/v1/letter?id="+id); w.Code != want && w.Code != 503 {
			t.Errorf("%s: %d", id, w.Code)
		}
	}
}

// Two groups, and two reasons, may look alike once they are fit to be shown. What is asked for
// is the one that was meant.
func TestNamesThatLookAlikeAreToldApart(t *testing.T) {
	m, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("g", letterText)
	names := []string{"a b", "a\nb", long + "1", long + "2", `"><script>`}
	for i, name := range names {
		for n := range i + 1 {
			if err := m.Put(t.Context(), deadletter.Letter{ID: deadletter.LetterID(name, string(rune('a'+n)), nil), Group: name, Reason: name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := lettersPage(t, m, true)
	for _, g := range lettersAt(t, p, "").Groups {
		meant, reason := cmp.Or(g.Value, g.Name), cmp.Or(g.Reasons[0].Value, g.Reasons[0].Name)
		at := slices.Index(names, meant)
		if at < 0 || g.Waiting != at+1 || reason != meant || len(g.Name) > letterText+len("…") || strings.Contains(g.Name, "\n") {
			t.Fatalf("%+v", g)
		}
		q := url.Values{"group": {meant}, "reason": {reason}}
		if v := lettersAt(t, p, "?"+q.Encode()); len(v.Letters) != g.Waiting {
			t.Errorf("%q has %d letters, and %d are listed", meant, g.Waiting, len(v.Letters))
		}
		body, err := json.Marshal(letterAct{Action: "redrive", Group: meant, Reason: reason, Rate: 5})
		if err != nil {
			t.Fatal(err)
		}
		if w := actOn(p, string(body)); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if d := lettersAt(t, p, "").Drives[0]; d.Total != g.Waiting {
			t.Errorf("of %q %d letters run, and %d waited", meant, d.Total, g.Waiting)
		}
	}
}

// Without the key a page still shows what happened, and can redrive it.
func TestASealedLetterIsShownWithoutAKey(t *testing.T) {
	m, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keyed := func(name string) deadletter.Store {
		sealer, err := deadletter.NewSealer(idempotency.SealKey{Name: name, Secret: bytes.Repeat([]byte(name), 32)})
		if err != nil {
			t.Fatal(err)
		}
		return deadletter.Sealed(m, sealer)
	}
	l := deadletter.Letter{
		ID: deadletter.LetterID("billing", "order-1", []byte(secret)), Group: "billing", Key: "order-1", Payload: []byte(secret),
		Headers: headers.Headers{{Name: "Authorization", Value: secret}}, Failures: []deadletter.Failure{{Message: "bank: refused"}},
	}
	if err := keyed("a").Put(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for key, sealed := range map[string]bool{"a": false, "b": true} {
		p := lettersPage(t, keyed(key), true)
		w := ask(p, "GET", "/api/v1/letter?id="+string(l.ID))
		var d letterDetail
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != 200 || strings.Contains(w.Body.String(), secret) {
			t.Fatalf("key %s: %d %v %s", key, w.Code, err, w.Body)
		}
		if d.Sealed != sealed || (d.Hash == "") != sealed || d.Headers[0] != "Authorization" || d.Failures[0].Message != "bank: refused" {
			t.Errorf("key %s: %+v", key, d)
		}
		if w := actOn(p, `{"action":"redrive","id":"`+string(l.ID)+`","rate":1}`); w.Code != 200 {
			t.Errorf("key %s: %d %s", key, w.Code, w.Body)
		}
		all, err := m.Drives(t.Context(), "")
		if err != nil || m.Stop(t.Context(), all[0].ID, "", "") != nil {
			t.Fatal(err)
		}
	}
}

func TestWithoutScriptLettersAreATable(t *testing.T) {
	m, ids := lettersOf(t)
	p := lettersPage(t, m, false)
	if text := ask(p, "GET", "/").Body.String(); strings.Contains(text, string(ids["order-1"])) || !strings.Contains(text, `href="?letters"`) {
		t.Error("the table of dependencies links to the letters and does not ask for them")
	}
	text := ask(p, "GET", "/?letters").Body.String()
	for _, want := range []string{string(ids["order-1"]), "order-3", "attempts exhausted 2×", "bank: refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(text, secret) || strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("it shows what it must not")
	}
	if !strings.Contains(ask(p, "GET", "/api/v1/state").Body.String(), `"letters":true`) {
		t.Error("the stream does not say that there is a tab")
	}
}

func actOn(p http.Handler, body string) *httptest.ResponseRecorder {
	return actAs(p, nil, body)
}

func actAs(p http.Handler, headers map[string]string, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/debug/api/v1/letter-act", strings.NewReader(body))
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

func TestActsOnLettersAreGuarded(t *testing.T) {
	good := `{"action":"drop","id":"ORDER1","note":"test data"}`
	for _, c := range []struct {
		fact     string
		readOnly bool
		headers  map[string]string
		body     string
		want     int
	}{
		{"from this page", false, nil, good, 200},
		{"on a page that is read-only", true, nil, good, 403},
		{"from another site", false, map[string]string{"Origin": "https://evil.example"}, good, 403},
		{"from a sibling site", false, map[string]string{"Sec-Fetch-Site": "same-site"}, good, 403},
		{"as a form", false, map[string]string{"Content-Type": "text/plain"}, good, 415},
		{"without a note", false, nil, `{"action":"drop","id":"ORDER1","note":" "}`, 400},
		{"of no letter", false, nil, `{"action":"drop","id":"00000000000000000000000000000000","note":"x"}`, 404},
		{"with an unknown action", false, nil, `{"action":"explode","id":"ORDER1"}`, 400},
		{"resolved as something else", false, nil, `{"action":"resolve","id":"ORDER3","as":"maybe","note":"x"}`, 400},
		{"resolved though it is known", false, nil, `{"action":"resolve","id":"ORDER1","as":"done","note":"x"}`, 409},
		{"resolved as done", false, nil, `{"action":"resolve","id":"ORDER3","as":"done","note":"x"}`, 200},
		{"resolved as nothing", false, nil, `{"action":"resolve","id":"ORDER3","as":"nothing","note":"x"}`, 200},
		{"a redrive of a group", false, nil, `{"action":"redrive","group":"billing","rate":5}`, 200},
		{"a redrive of one letter", false, nil, `{"action":"redrive","id":"ORDER1","rate":1}`, 200},
		{"a redrive of an unresolved letter", false, nil, `{"action":"redrive","id":"ORDER3","rate":1}`, 409},
		{"a redrive of everything", false, nil, `{"action":"redrive","rate":1}`, 400},
		{"a redrive at no rate", false, nil, `{"action":"redrive","group":"billing"}`, 400},
		{"a redrive at a rate below zero", false, nil, `{"action":"redrive","group":"billing","rate":-1}`, 400},
		{"a redrive at a rate that is a slip", false, nil, `{"action":"redrive","group":"billing","rate":1e9}`, 400},
		{"a stop of nothing", false, nil, `{"action":"stop"}`, 400},
		{"a stop of an unknown redrive", false, nil, `{"action":"stop","redrive":"77"}`, 404},
		{"no JSON", false, nil, `drop`, 400},
		{"too long", false, nil, `{"note":"` + strings.Repeat("x", maxAct) + `"}`, 400},
	} {
		t.Run(c.fact, func(t *testing.T) {
			m, ids := lettersOf(t)
			p := lettersPage(t, m, !c.readOnly)
			w := actAs(p, c.headers, strings.NewReplacer("ORDER1", string(ids["order-1"]), "ORDER3", string(ids["order-3"])).Replace(c.body))
			if w.Code != c.want || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.want)
			}
		})
	}
}

func TestActsOnLettersSayWho(t *testing.T) {
	m, ids := lettersOf(t)
	p := lettersPage(t, m, true)
	if w := actOn(p, `{"action":"redrive","group":"billing","rate":5}`); !strings.Contains(w.Body.String(), "2 letters will run, in about 1s. Left out: 1 letter whose outcome is unknown.") {
		t.Error(w.Body)
	}
	v := lettersAt(t, p, "")
	if len(v.Drives) != 1 || v.Drives[0].Total != 2 || v.Drives[0].By != "page, 192.0.2.1" || v.Drives[0].Left != 2 {
		t.Fatalf("%+v", v)
	}
	if w := actOn(p, `{"action":"redrive","group":"billing","rate":1000}`); w.Code != 409 || !strings.Contains(w.Body.String(), "another redrive of the group goes on: "+v.Drives[0].ID+" by page, 192.0.2.1") {
		t.Errorf("a second one: %d %s", w.Code, w.Body)
	}
	actOn(p, `{"action":"stop","redrive":"`+v.Drives[0].ID+`"}`)
	if v = lettersAt(t, p, ""); v.Drives[0].State != "stopped" || v.Groups[0].Waiting != 3 {
		t.Errorf("%+v", v)
	}
	actOn(p, `{"action":"drop","id":"`+string(ids["m-1"])+`","note":"test data"}`)
	if l, err := m.Get(t.Context(), ids["m-1"]); err != nil || l.State != deadletter.Dropped || l.By != "page, 192.0.2.1" || l.Note != "test data" {
		t.Errorf("%v %v %q %q", err, l.State, l.By, l.Note)
	}
}
