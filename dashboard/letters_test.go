package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/deadletter"
	headers "github.com/gabion-go/gabion/message"
)

const secret = "card 4111"

// lettersOf returns a store with three letters of billing, one of which wants a resolution, and
// one of mail.
func lettersOf(t testing.TB) (*deadletter.Memory, map[string]deadletter.ID) {
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
		l.ID = deadletter.IDOf(l.Group, l.Key, l.Payload)
		ids[l.Key] = l.ID
		if err := m.Put(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	return m, ids
}

func lettersPage(t testing.TB, store deadletter.Store, overrides bool) *Page {
	t.Helper()
	p := New(Config{Registry: newRegistry(t, "bank"), Letters: store, AllowOverrides: overrides})
	t.Cleanup(func() { p.Close() })
	return p
}

func lettersAt(t *testing.T, p *Page, query string) (v letterView) {
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
	if len(v.Letters) != 4 || len(v.Groups) != 2 || v.Problem != "" || v.Overrides {
		t.Fatalf("%+v", v)
	}
	if g := v.Groups[0]; g.Name != "billing" || g.Waiting != 3 || g.Unresolved != 1 || g.Put != 3 || g.Reasons[0] != (letterCount{"attempts_exhausted", 2}) {
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

func TestWithoutAStoreThereIsNoTab(t *testing.T) {
	p := lettersPage(t, nil, true)
	for _, path := range []string{"/api/v1/letters", "/api/v1/letter?id=1"} {
		if w := ask(p, "GET", path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := actOn(p, `{"action":"stop","redrive":"1"}`); w.Code != 404 {
		t.Errorf("%d", w.Code)
	}
	if text := ask(p, "GET", "/api/v1/state").Body.String(); strings.Contains(text, `"letters"`) {
		t.Error(text)
	}
	if text := ask(p, "GET", "/?letters").Body.String(); strings.Contains(text, `href="?letters"`) {
		t.Error(text)
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

func actOn(p *Page, body string) *httptest.ResponseRecorder {
	return actAs(p, nil, body)
}

func actAs(p *Page, headers map[string]string, body string) *httptest.ResponseRecorder {
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
		{"with an action that nobody knows", false, nil, `{"action":"explode","id":"ORDER1"}`, 400},
		{"resolved as something else", false, nil, `{"action":"resolve","id":"ORDER3","as":"maybe","note":"x"}`, 400},
		{"resolved though it is known", false, nil, `{"action":"resolve","id":"ORDER1","as":"done","note":"x"}`, 409},
		{"resolved as done", false, nil, `{"action":"resolve","id":"ORDER3","as":"done","note":"x"}`, 200},
		{"resolved as nothing", false, nil, `{"action":"resolve","id":"ORDER3","as":"nothing","note":"x"}`, 200},
		{"a redrive of a group", false, nil, `{"action":"redrive","group":"billing","rate":5}`, 200},
		{"a redrive of one letter", false, nil, `{"action":"redrive","id":"ORDER1","rate":1}`, 200},
		{"a redrive of what nobody has resolved", false, nil, `{"action":"redrive","id":"ORDER3","rate":1}`, 409},
		{"a redrive of everything", false, nil, `{"action":"redrive","rate":1}`, 400},
		{"a redrive at no rate", false, nil, `{"action":"redrive","group":"billing"}`, 400},
		{"a redrive at a rate below zero", false, nil, `{"action":"redrive","group":"billing","rate":-1}`, 400},
		{"a redrive at a rate that is a slip", false, nil, `{"action":"redrive","group":"billing","rate":1e9}`, 400},
		{"a stop of nothing", false, nil, `{"action":"stop"}`, 400},
		{"a stop of a redrive that nobody knows", false, nil, `{"action":"stop","redrive":"77"}`, 404},
		{"no JSON", false, nil, `drop`, 400},
		{"too long", false, nil, `{"note":"` + strings.Repeat("x", maxOverride) + `"}`, 400},
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
	p := lettersPage(t, nil, true)
	if w := ask(p, "GET", "/api/v1/letter-act"); w.Code != 405 {
		t.Errorf("GET: %d", w.Code)
	}
}

func TestActsOnLettersSayWho(t *testing.T) {
	m, ids := lettersOf(t)
	p := lettersPage(t, m, true)
	if w := actOn(p, `{"action":"redrive","group":"billing","rate":5}`); !strings.Contains(w.Body.String(), "2 letters will run, in about 1 s. Left out: 1 letter whose outcome is unknown.") {
		t.Error(w.Body)
	}
	v := lettersAt(t, p, "")
	if len(v.Drives) != 1 || v.Drives[0].Total != 2 || v.Drives[0].By != "page, 192.0.2.1" || v.Groups[0].Ordered != 2 {
		t.Fatalf("%+v", v)
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

// A deaf store is one that does not come back.
type deafStore struct {
	deadletter.Store
	answer    func(context.Context) error
	now, most atomic.Int32 // questions at once
}

func (s *deafStore) ask(ctx context.Context) error {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	return s.answer(ctx)
}

func (s *deafStore) Groups(ctx context.Context) ([]string, error) { return nil, s.ask(ctx) }
func (s *deafStore) Get(ctx context.Context, _ deadletter.ID) (deadletter.Letter, error) {
	return deadletter.Letter{}, s.ask(ctx)
}
func (s *deafStore) Drop(ctx context.Context, _ deadletter.ID, _, _ string) error { return s.ask(ctx) }

func TestAStoreThatIsDownDoesNotHoldThePage(t *testing.T) {
	for _, c := range []struct {
		fact   string
		answer func(ctx context.Context, end chan struct{}) error
		says   string
	}{
		{"it fails", func(context.Context, chan struct{}) error { return errors.New("disk full") }, "disk full"},
		{"it heeds its time", func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return ctx.Err() }, "does not answer in time"},
		{"it is deaf", func(_ context.Context, end chan struct{}) error { <-end; return nil }, "does not answer in time"},
		{"it panics", func(context.Context, chan struct{}) error { panic("nil map") }, "panicked"},
		{"it ends its goroutine", func(context.Context, chan struct{}) error { runtime.Goexit(); return nil }, "panicked"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				store := &deafStore{answer: func(ctx context.Context) error { return c.answer(ctx, end) }}
				p := New(Config{Letters: store, AllowOverrides: true})
				defer p.Close()
				began := time.Now()
				for range 20 {
					go ask(p, "GET", "/api/v1/letters")
				}
				if v := lettersAt(t, p, ""); !strings.Contains(v.Problem, c.says) {
					t.Errorf("%q", v.Problem)
				}
				if text := ask(p, "GET", "/?letters").Body.String(); !strings.Contains(text, c.says) {
					t.Error(text)
				}
				if w := ask(p, "GET", "/api/v1/letter?id=1"); w.Code != 503 || !strings.Contains(w.Body.String(), c.says) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				if took := time.Since(began); took > 3*letterTime {
					t.Errorf("three looks took %v", took)
				}
				if w := actOn(p, `{"action":"drop","id":"1","note":"x"}`); w.Code != 503 || !strings.Contains(w.Body.String(), "may have been done") {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				if w := ask(p, "GET", "/"); w.Code != 200 {
					t.Errorf("the page itself: %d", w.Code)
				}
				if n := store.most.Load(); n > letterQuestions {
					t.Errorf("%d questions at once", n)
				}
				close(end) // the bubble ends only when every goroutine has
			})
		})
	}
}

func TestNewLettersAreCountedOverTheLastMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLetterbox(&deafStore{})
		for i := range 3600 {
			letters, seconds := b.inflow("billing", int64(i))
			if want := min(i, 630); int(letters) > want || int(seconds) > want || i > 700 && letters < 590 {
				t.Fatalf("after %d s: %d letters in %d s", i, letters, seconds)
			}
			time.Sleep(time.Second)
		}
		if n := len(b.was["billing"]); n > 25 {
			t.Errorf("%d counts are kept", n)
		}
	})
}
