package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/letterpage"
	"github.com/gabion-go/gabion/messages/message"
)

// evil is markup that would run a script if anything took it for markup. The browser's
// complaint about a script that it keeps out fails a test as well.
const evil = `"'><img src=x onerror="document.title='taken'"><script>document.title='taken'</script>${document.title='taken'}`

// hostile is a page with a letter that has markup wherever a message has a say, and one of a
// group that looks like another.
func hostile(t *testing.T, overrides bool) (store deadletter.Store, url string) {
	t.Helper()
	store, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []deadletter.Letter{
		{
			Group: evil, Key: evil, Source: evil, Position: evil, Order: evil, Reason: evil, Attempts: 2, Payload: []byte("secret " + evil),
			Headers: message.Headers{{Name: evil, Value: "secret"}}, Failures: []deadletter.Failure{{At: time.Now(), Class: evil, Reason: evil, Message: evil}},
		},
		{Group: "a b", Key: "1", Reason: "permanent"},
		{Group: "a\nb", Key: "2", Reason: "permanent"},
	} {
		l.ID = deadletter.LetterID(l.Group, l.Key, l.Payload)
		if err := store.Put(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	p := dashboard.New(dashboard.Config{Title: evil, Letters: letterpage.New(store), AllowOverrides: overrides})
	s := httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return store, s.URL + "/"
}

func TestMarkupInALetterIsText(t *testing.T) {
	t.Parallel()
	store, url := hostile(t, true)
	d, err := store.Order(t.Context(), deadletter.Query{Group: evil}, deadletter.Drive{Rate: 1, By: evil})
	if err != nil || store.Stop(t.Context(), d.ID, evil, evil) != nil {
		t.Fatal(err)
	}
	b := newTab(t)
	b.size(1440, 1000, false)
	b.open(url + "#letters")
	b.until(lettersText, evil[:20])
	b.read(`document.querySelector("[data-letter]").click(), ""`)
	b.until(sheetText, "Failures")
	const taken = `String(document.title === "taken") + document.querySelectorAll("img, #letters script, #letter script").length`
	if got := b.read(taken); got != "false0" {
		t.Errorf("taken: %s", got)
	}
	for _, text := range []string{b.read(lettersText), b.read(sheetText)} {
		if !strings.Contains(text, "onerror=") || strings.Contains(text, "secret") {
			t.Errorf("it shows a payload or a header's value, or not the key:\n%s", text)
		}
	}
}

// Of two groups that look alike the one runs whose button is clicked.
func TestTheButtonRunsItsOwnGroup(t *testing.T) {
	t.Parallel()
	store, url := hostile(t, true)
	b := newTab(t)
	b.size(1440, 1000, false)
	b.open(url + "#letters")
	const rows = `[...document.querySelectorAll("table.groups tbody tr")].filter((e) => e.querySelector("th").textContent === "a b")`
	b.until(`String(`+rows+`.length)`, "2")
	b.read(rows + `.forEach((e) => { const button = e.querySelector("button"); button.click(); button.click(); }), ""`)
	b.until(`String(document.querySelectorAll(".drives li").length)`, "2")
	for _, group := range []string{"a b", "a\nb"} {
		all, err := store.Drives(t.Context(), group)
		if err != nil || len(all) != 1 || all[0].Total != 1 {
			t.Errorf("%q: %+v, %v", group, all, err)
		}
	}
}

func TestAReadOnlyPageHasNoHandsOnLetters(t *testing.T) {
	t.Parallel()
	_, url := hostile(t, false)
	b := newTab(t)
	b.size(1440, 1000, false)
	b.open(url + "#letters")
	b.until(lettersText, "a b")
	b.read(`document.querySelector("[data-letter]").click(), ""`)
	b.until(sheetText, "Failures")
	const hands = `[...document.querySelectorAll("#letters button, #letter button, #letters input, #letter input")].filter((e) => e.offsetParent).map((e) => e.textContent).join()`
	if got := b.read(hands); got != "×" {
		t.Errorf("one can click %q", got)
	}
}

// A server that never answers must not leave an old list standing as if it were new.
func TestAListThatDoesNotComeIsCalledOld(t *testing.T) {
	t.Parallel()
	store, _ := hostile(t, false)
	p := dashboard.New(dashboard.Config{Letters: letterpage.New(store)})
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/api/v1/letters") {
			<-end
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(end)
		p.Close()
		s.CloseClientConnections()
		s.Close()
	})
	b := newTab(t)
	b.size(1440, 1000, false)
	b.open(s.URL + "/")
	b.read(`(AbortSignal.timeout = ((of) => (ms) => of(ms / 50))(AbortSignal.timeout.bind(AbortSignal))), ""`) // 15 s are long
	b.click("Dead letters")
	b.until(lettersText, "The list is old")
}
