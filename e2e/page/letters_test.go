package page

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/letterpage"
)

// letters is a page with 130 dead letters of two groups, one of which wants a resolution.
func letters(t *testing.T) (store deadletter.Store, url string) {
	t.Helper()
	store, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(l deadletter.Letter) {
		l.Payload = []byte("the card of a customer")
		l.ID = deadletter.LetterID(l.Group, l.Key, l.Payload)
		if err := store.Put(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	put(deadletter.Letter{Group: "billing", Key: "order-1", Reason: deadletter.Unknown, Attempts: 2, Source: "orders",
		Failures: []deadletter.Failure{{At: time.Now(), Attempt: 2, Class: "network", Took: time.Second, Message: "bank: <b>connection</b> reset"}}})
	for i := range 120 {
		put(deadletter.Letter{Group: "billing", Key: fmt.Sprintf("order-%d", i+2), Reason: "attempts_exhausted", Attempts: 5,
			Failures: []deadletter.Failure{{At: time.Now(), Attempt: 5, Class: "server", Message: "bank: 503 " + strings.Repeat("unavailable ", 12)}}})
	}
	for i := range 9 {
		put(deadletter.Letter{Group: "mail", Key: fmt.Sprintf("mail-%d", i), Reason: "permanent", Attempts: 1})
	}
	p := dashboard.New(dashboard.Config{Title: "shop", Letters: letterpage.New(store), AllowOverrides: true})
	s := httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return store, s.URL + "/"
}

const (
	lettersText = `document.getElementById("letters").innerText.replaceAll("\u00a0", " ")`
	sheetText   = `document.getElementById("letter").innerText.replaceAll("\u00a0", " ")`
)

// click clicks the button with that text, wherever it is.
func (b *tab) click(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`(() => { const e = [...document.querySelectorAll("button, .tabs a")].find((e) => e.textContent.startsWith(%q) && e.offsetParent); e?.click(); return e ? "clicked" : "missing" })()`, text), "clicked")
}

func TestDeadLettersAreATab(t *testing.T) {
	t.Parallel()
	store, url := letters(t)
	b := newTab(t)
	b.size(1440, 1000, false)
	b.open(url)
	b.click("Dead letters")
	for _, want := range []string{"billing", "121", "attempts exhausted 120, outcome unknown 1", "mail", "permanent 9", "order-1", "bank: <b>connection</b> reset"} {
		b.until(lettersText, want)
	}
	b.until(`document.getElementById("tab-letters").textContent`, "(130)")
	if text := b.read(`document.body.innerText`); strings.Contains(text, "the card of a customer") || strings.Contains(text, "No dependency is known") {
		t.Error("it shows a payload, or the other tab")
	}
	b.shot("letters.png")

	b.click("More")
	b.until(lettersText, "order-60")
	b.click("Back")
	b.until(lettersText, "order-2\t")

	// The keyboard opens a letter, and Escape closes it.
	b.read(`document.querySelector("[data-letter]").focus(), ""`)
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent("\r")))
	b.until(sheetText, "Its outcome is unknown")
	b.until(sheetText, "22 B, SHA-256 ")
	b.shot("letter.png")
	b.click("Nothing happened")
	b.until(sheetText, "Say why first.")
	b.read(`document.querySelector("#letter .note").value = "the bank never saw it", ""`)
	b.click("Nothing happened")
	b.until(sheetText, "(nothing)")
	b.until(sheetText, "The letter may run again.")
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent("\x1b")))
	b.until(`location.hash + document.getElementById("letter").open`, "#lettersfalse")

	b.click("Redrive") // of billing, the first
	b.click("Really run 121 of billing?")
	b.until(lettersText, "driving, 0 of 121 done, 0 failed, 121 left")
	leases, _, err := store.Take(t.Context(), "billing", 1, time.Minute)
	if err != nil || len(leases) != 1 {
		t.Fatal(len(leases), err)
	}
	if err := store.Settle(t.Context(), leases[0], deadletter.Verdict{State: deadletter.Done}); err != nil {
		t.Fatal(err)
	}
	b.until(lettersText, "driving, 1 of 121 done, 0 failed, 120 left")
	b.shot("redrive.png")
	b.click("Stop")
	b.until(lettersText, "stopped on the page")
	b.until(lettersText, "stopped, 1 of 121 done")
	// The bar is what ran: of a redrive that was stopped nothing is left, and 120 did not run.
	b.until(`(({value, max}) => value + " of " + max)(document.querySelector("#letters progress"))`, "1 of 121")
	b.until(`getComputedStyle(document.querySelector("#letters progress")).backgroundColor`, "rgb(236, 239, 242)")
}

// A redrive that stopped by itself stands out from one that was stopped by hand.
func TestARedriveThatStoppedByItselfIsSeen(t *testing.T) {
	t.Parallel()
	store, url := letters(t)
	for _, group := range []string{"mail", "billing"} {
		if _, err := store.Order(t.Context(), deadletter.Query{Group: group}, deadletter.Drive{Rate: 1e6}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := store.Drives(t.Context(), "mail")
	if err != nil || store.Stop(t.Context(), all[0].ID, "ann", "enough") != nil {
		t.Fatal(err)
	}
	leases, _, err := store.Take(t.Context(), "billing", 10, time.Minute)
	if err != nil || len(leases) != 10 {
		t.Fatal(len(leases), err)
	}
	for _, l := range leases {
		failed := deadletter.Failure{At: time.Now(), Class: "server", Message: "503"}
		if err := store.Settle(t.Context(), l, deadletter.Verdict{State: deadletter.Waiting, Reason: "attempts_exhausted", Failure: &failed}); err != nil {
			t.Fatal(err)
		}
	}
	b := newTab(t)
	b.size(1440, 1000, false)
	b.open(url + "#letters")
	b.until(lettersText, "mail: stopped, 0 of 9 done")
	b.until(lettersText, "billing: stopped by itself, 0 of 120 done, 10 failed")
	b.until(lettersText, "of the last 10 letters 0 were done, fewer than half")
	const colors = `[...document.querySelectorAll(".drives li")].map((e) => getComputedStyle(e.querySelector(".line")).color).join()`
	if c := strings.Split(b.read(colors), "),"); len(c) != 2 || strings.TrimSuffix(c[0], ")") == strings.TrimSuffix(c[1], ")") {
		t.Errorf("colors %q", c)
	}
	b.shot("redrive-stopped.png")
}

func TestDeadLettersFitAPhone(t *testing.T) {
	t.Parallel()
	_, url := letters(t)
	b := newTab(t)
	b.size(390, 844, true)
	b.open(url + "#letters")
	b.until(lettersText, "order-2")
	b.until(lettersText, "Redrive") // also where the page was opened on this tab
	b.shot("letters-phone.png")
	wide := `String(document.documentElement.scrollWidth - innerWidth)`
	if n := b.read(wide); n != "0" {
		t.Errorf("the tab is %s px too wide", n)
	}
	b.read(`document.querySelector("[data-letter]").click(), ""`)
	b.until(sheetText, "Failures")
	b.shot("letter-phone.png")
	if n := b.read(wide); n != "0" {
		t.Errorf("the letter is %s px too wide", n)
	}
	if n := b.read(`String(document.getElementById("letter").scrollWidth - document.getElementById("letter").clientWidth)`); n != "0" {
		t.Errorf("the sheet is %s px too wide", n)
	}
	if c := b.read(`getComputedStyle(document.querySelector(".letters th")).color`); c == "rgb(0, 0, 0)" {
		t.Error("black on black")
	}
}
