package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/gabion-go/gabion/e2e/internal/chromium"
	"github.com/gabion-go/gabion/internal/testservers"
)

// visit is a page that fetches, posts, reads a stream of events and speaks over a WebSocket, all
// through the proxy it came through, and then reports what it saw.
const visit = `<!doctype html><link rel="icon" href="data:,"><script>
(async () => {
  const saw = {};
  try {
    for (let n = 0; n < 5; n++) saw.get = await (await fetch("/get?" + n)).text();
    saw.kept = performance.getEntriesByType("resource").filter((e) => e.name.includes("/get?") && e.connectStart === e.connectEnd).length;
    const post = () => fetch("/orders", {method: "POST", body: "one", headers: {"Idempotency-Key": "k"}});
    saw.posts = [await (await post()).text(), await (await post()).text()];
    saw.events = await new Promise((done, failed) => {
      const source = new EventSource("/events"), all = [];
      source.onmessage = (e) => {
        all.push(e.data);
        if (all.length === 1) fetch("/more");
        if (all.length === 2) { source.close(); done(all); }
      };
      source.onerror = () => failed(new Error("the stream of events broke"));
    });
    saw.echo = await new Promise((done, failed) => {
      const socket = new WebSocket("ws://" + location.host + "/socket");
      socket.onopen = () => socket.send("hello");
      socket.onmessage = (e) => { socket.close(); done(e.data); };
      socket.onerror = () => failed(new Error("the WebSocket broke"));
    });
  } catch (e) { saw.error = String(e); }
  await fetch("/saw", {method: "POST", body: JSON.stringify(saw)});
})();
</script>`

// sight is what the page reports.
type sight struct {
	Get, Echo, Error string
	Kept             int
	Posts, Events    []string
}

// site is a program that a browser talks to. The second event is sent once the first was seen.
func site(t *testing.T, saw chan<- sight) http.Handler {
	mux, more, orders := http.NewServeMux(), make(chan bool, 1), 0
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, visit)
	})
	mux.HandleFunc("GET /get", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "got") })
	mux.HandleFunc("GET /more", func(http.ResponseWriter, *http.Request) { more <- true })
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, _ *http.Request) {
		orders++ // one browser, one after the other
		fmt.Fprintf(w, "order %d", orders)
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: a\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		select {
		case <-more:
		case <-r.Context().Done():
		}
		io.WriteString(w, "data: b\n\n")
	})
	mux.HandleFunc("GET /socket", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the proxy is another origin
		if err != nil {
			t.Error(err)
			return
		}
		kind, said, err := conn.Read(r.Context())
		if err == nil {
			err = conn.Write(r.Context(), kind, said)
		}
		if err != nil {
			t.Error(err)
		}
		_, _, _ = conn.Read(r.Context()) // until the page closes it
		_ = conn.CloseNow()
	})
	mux.HandleFunc("POST /saw", func(_ http.ResponseWriter, r *http.Request) {
		var s sight
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			t.Error(err)
		}
		saw <- s
	})
	return mux
}

// A browser before a program with the proxy between them: connections are kept, a key's second POST
// has the first one's answer, events come one by one, and a WebSocket works.
func TestABrowserThroughIngress(t *testing.T) {
	long(t, "a browser starts")
	saw := make(chan sight, 1)
	server := httptest.NewServer(site(t, saw))
	defer server.Close()
	at := front(t, "version: 1\nproxy:\n  drain: 1s\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: \""+server.URL+"\", deadlines: true, admission: {limit: learned}, idempotency: {store: \"bolt:x\", routes: [POST /orders]}}}\n")
	ctx, stop, err := chromium.Start(during(t, time.Minute))
	if errors.Is(err, chromium.ErrMissing) {
		testservers.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := chromedp.Do(ctx, chromedp.Navigate("http://"+at+"/")); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-saw:
		if s.Error != "" || s.Get != "got" || s.Echo != "hello" || fmt.Sprint(s.Posts) != "[order 1 order 1]" || fmt.Sprint(s.Events) != "[a b]" {
			t.Errorf("%+v", s)
		}
		if s.Kept < 4 {
			t.Errorf("%d of 5 requests went over a kept connection", s.Kept)
		}
	case <-ctx.Done():
		t.Fatal("the page reports nothing")
	}
}
