package demo

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/serving"
	"github.com/gabion-go/gabion/dashboard"
)

// live serves the page of the demo, and below it gabion's own live page of its client. Both
// go on from run to run.
type live struct {
	address string
	open    bool // not only to this machine
	server  *http.Server
	gabions *dashboard.Page

	mu      sync.Mutex // guards all below
	now     func() scene
	runs    int
	earlier []scene   // the drawings of the runs that are over, the newest first
	looked  time.Time // when a browser last asked
}

const (
	noPage     = "off"           // the address that means to serve none
	patient    = 3 * time.Second // a browser that has not asked for so long has gone
	keptRuns   = 10              // earlier runs that the page shows
	titleOfOwn = "gabion demo: gabion's client (late answers count here)"
)

//go:embed page.html page.css page.js
var pageFiles embed.FS

var pageHTML = template.Must(template.ParseFS(pageFiles, "page.html"))

// pagePolicy lets the page's own files in, and the attributes of its drawings.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// goLive serves the page at an address of this machine. With noPage it serves none, and
// returns nil.
func goLive(address string, payments *gabion.Dependency) (*live, error) {
	if address == noPage {
		return nil, nil
	}
	listener, url, open, err := serving.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("serve the live page at %q, which wants a free host:port, such as 127.0.0.1:8080, or %s: %w", address, noPage, err)
	}
	l := &live{address: url, open: open}
	l.gabions = dashboard.New(dashboard.Config{Title: titleOfOwn, Dependencies: []*gabion.Dependency{payments}, AllowOverrides: true})
	l.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: serving.Guard(url, l.routes())}
	go func() { _ = l.server.Serve(listener) }() // it ends with close
	return l, nil
}

func (l *live) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/gabion/", l.gabions)
	page := func(path, kind string, serve http.HandlerFunc) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Type", kind+"; charset=utf-8")
			h.Set("Content-Security-Policy", pagePolicy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cache-Control", "no-store")
			serve(w, r)
		})
	}
	page("/{$}", "text/html", func(w http.ResponseWriter, _ *http.Request) {
		_ = pageHTML.Execute(w, struct{ InTime string }{fmt.Sprintf("%.0f s", inTime.Seconds())}) // the client may have left
	})
	for name, kind := range map[string]string{"page.css": "text/css", "page.js": "text/javascript"} {
		page("/"+name, kind, func(w http.ResponseWriter, _ *http.Request) {
			text, _ := pageFiles.ReadFile(name) // it is built in
			_, _ = w.Write(text)
		})
	}
	page("/now.svg", "image/svg+xml", l.serveNow)
	page("/earlier", "text/html", l.serveEarlier)
	return mux
}

// serveNow draws the run that goes on, or the last one.
func (l *live) serveNow(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	now, runs := l.now, l.runs
	l.looked = time.Now()
	l.mu.Unlock()
	w.Header().Set("Run", strconv.Itoa(runs))
	if now != nil {
		_, _ = io.WriteString(w, now().svg(layoutFor(r), false)) // the client may have left
	}
}

// layoutFor is that for the page's width.
func layoutFor(r *http.Request) layout {
	if r.URL.Query().Has("narrow") {
		return narrow
	}
	return wide
}

// serveEarlier serves the drawings of the runs before.
func (l *live) serveEarlier(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.earlier) > 0 {
		_, _ = io.WriteString(w, "<h2>Earlier runs</h2>\n") // the client may have left
	}
	for _, run := range l.earlier {
		_, _ = io.WriteString(w, run.svg(layoutFor(r), false))
	}
}

// begin shows a run that begins. The one before stays on the page.
func (l *live) begin(st *stage) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		l.earlier = append([]scene{l.now()}, l.earlier...)
		l.earlier = l.earlier[:min(len(l.earlier), keptRuns)]
	}
	l.now = st.scene
	l.runs++
}

// end shows what the report of a run says.
func (l *live) end(r *Report) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = r.scene
}

// introduce says where the page is.
func (l *live) introduce(w io.Writer, p paint) {
	if l == nil {
		return
	}
	fmt.Fprintln(w, "  "+p.bold("Watch it in a browser")+"  "+l.address)
	if l.open {
		fmt.Fprintln(w, "  Anyone who can reach this machine can watch it too, and use its buttons.")
	}
	fmt.Fprintln(w)
}

// watched reports whether the page has viewers.
func (l *live) watched() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.looked) < patient || l.gabions.Viewers() > 0
}

func (l *live) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.gabions.Close(), l.server.Close())
}
