package dashboard

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"
)

//go:embed static
var files embed.FS

// contentPolicy lets the page's own files in and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the files that are served, and what they are.
var types = map[string]string{
	"page.js":       "text/javascript; charset=utf-8",
	"tile.js":       "text/javascript; charset=utf-8",
	"detail.js":     "text/javascript; charset=utf-8",
	"chart.js":      "text/javascript; charset=utf-8",
	"replay.js":     "text/javascript; charset=utf-8",
	"letters.js":    "text/javascript; charset=utf-8",
	"words.js":      "text/javascript; charset=utf-8",
	"page.css":      "text/css; charset=utf-8",
	"uplot.js":      "text/javascript; charset=utf-8",
	"uplot.css":     "text/css; charset=utf-8",
	"uplot.LICENSE": "text/plain; charset=utf-8",
	"icon.svg":      "image/svg+xml",
}

func (p *Page) route() {
	p.routes = map[string]http.HandlerFunc{
		"api/v1/state":      p.serveState,
		"api/v1/stream":     p.serveStream,
		"api/v1/dependency": p.serveDependency,
		"api/v1/measured":   p.serveMeasured,
		"api/v1/override":   p.serveOverride,
		"api/v1/replay":     p.serveReplay,
		"api/v1/letters":    p.ofLetters(Letters.List),
		"api/v1/letter":     p.ofLetters(Letters.Letter),
		"api/v1/letter-act": p.serveLetterAct,
	}
	for name := range types {
		p.routes["static/"+name] = serveFile
	}
}

// ServeHTTP serves the page at every path that ends in a slash, and its parts below.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	do, post := p.routed(r.URL.Path)
	switch {
	case do == nil:
		http.Error(w, "There is nothing here. The page's address ends in a slash.", http.StatusNotFound)
	case post && r.Method != http.MethodPost:
		h.Set("Allow", "POST")
		http.Error(w, "This takes POST.", http.StatusMethodNotAllowed)
	case !post && r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "This takes GET.", http.StatusMethodNotAllowed)
	default:
		do(w, r)
	}
}

// routed finds what serves a path, whatever it is mounted under.
func (p *Page) routed(path string) (do http.HandlerFunc, post bool) {
	if path == "" || strings.HasSuffix(path, "/") {
		return p.serveIndex, false
	}
	for end, do := range p.routes {
		if path == end || strings.HasSuffix(path, "/"+end) {
			return do, end == "api/v1/override" || end == "api/v1/replay" || end == "api/v1/letter-act"
		}
	}
	return nil, false
}

// serveFile serves a file that is built in.
func serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	text, err := files.ReadFile("static/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[name])
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Write(text) //nolint:gosec // a file of ours, whatever was asked for
}

var index = template.Must(template.New("index.html").Funcs(template.FuncMap{
	"spoken": spoken,
	"from":   func(since, now int64) string { return span(time.Duration(now-since) * time.Millisecond) },
	"clock":  func(ms int64) string { return time.UnixMilli(ms).Format("15:04:05") },
	"share": func(x *float64) string {
		if x == nil {
			return "–"
		}
		return percent(*x)
	},
	"times": func(x *float64) string {
		if x == nil {
			return "–"
		}
		return fmt.Sprintf("%.2f×", *x)
	},
	"number": func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) },
}).ParseFS(files, "static/index.html"))

// serveIndex serves the page, with a table for those who see it without script.
func (p *Page) serveIndex(w http.ResponseWriter, r *http.Request) {
	var letters template.HTML // asked for only on the page that shows them without script
	if q := r.URL.Query(); p.config.Letters != nil && q.Has("letters") {
		letters = p.config.Letters.Table(r.Context(), q)
	}
	v := p.look()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	index.Execute(w, struct { //nolint:errcheck // the client has gone
		Title     string
		At        int64
		Overrides bool
		Rows      []row
		HasBox    bool // of dead letters
		Letters   template.HTML
	}{p.config.Title, v.date(v.now), p.config.AllowOverrides, p.watched.rows(v, false), p.config.Letters != nil, letters})
}

// serveState serves one full frame as JSON.
func (p *Page) serveState(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(p.hub.full().text, '\n'))
}

// serveDependency serves everything about one dependency.
func (p *Page) serveDependency(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	d, ok := p.detail(name)
	if !ok {
		http.Error(w, "This page knows no dependency of that name.", http.StatusNotFound)
		return
	}
	answer(w, http.StatusOK, d)
}

func (p *Page) detail(name string) (*detail, bool) {
	v := p.look()
	t := (*p.watched.tiles.Load())[name]
	if t == nil {
		return nil, false
	}
	t.mu.Lock()
	d := t.detail(v)
	rules, living := t.vitals.policy, t.vitals.known
	t.mu.Unlock()
	if p.config.Settings != nil {
		d.Rules = p.config.Settings(name)
	}
	if d.Rules == nil && living {
		d.Rules = settingsOf(rules.Clone())
	}
	return d, true
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client has gone
}

const (
	writeTime = 10 * time.Second // for one frame; then the viewer counts as gone
	quietTime = 15 * time.Second // without a frame; then a comment keeps the connection
)

// serveStream serves frames as server-sent events, until the viewer leaves or the page is
// closed.
func (p *Page) serveStream(w http.ResponseWriter, r *http.Request) {
	s := stream{w: w, to: http.NewResponseController(w), name: p.origin.UnixNano()}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // of nginx
	if r.URL.Query().Has("once") {
		s.write(p.hub.full()) //nolint:errcheck // the client has gone
		return
	}
	v := p.hub.join()
	if v == nil {
		http.Error(w, "This page is closed.", http.StatusServiceUnavailable)
		return
	}
	defer p.hub.leave(v)
	s.text("retry: 1000\n\n") //nolint:errcheck // the next write says it, too
	if missed, ok := p.hub.since(s.number(r.Header.Get("Last-Event-ID"))); ok {
		for _, m := range missed {
			s.write(m) //nolint:errcheck // the next write says it, too
		}
	} else if s.write(p.hub.full()) != nil {
		return
	}
	s.follow(v, p, r)
}

// A stream is a response that frames are written to.
type stream struct {
	w    http.ResponseWriter
	to   *http.ResponseController
	name int64 // of the page: another one counts its frames anew
}

func (s *stream) follow(v *viewer, p *Page, r *http.Request) {
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for {
		var err error
		select {
		case <-r.Context().Done():
			return
		case <-v.gone:
			return
		case <-quiet.C:
			err = s.text(": nothing new\n\n")
		case <-v.wake:
			err = s.catchUp(v, p)
		}
		if err != nil {
			return
		}
		quiet.Reset(quietTime)
	}
}

// catchUp writes what waits, or a full frame if something was dropped.
func (s *stream) catchUp(v *viewer, p *Page) error {
	all, behind := v.take()
	if behind {
		return s.write(p.hub.full())
	}
	for _, m := range all {
		if err := s.write(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) write(m message) error {
	return s.text(fmt.Sprintf("id: %x-%d\ndata: %s\n\n", s.name, m.id, m.text))
}

func (s *stream) text(text string) error {
	// A writer without deadlines has those of its server.
	if err := s.to.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.to.Flush()
}

// number reads the number of the last frame that a viewer had, or 0.
func (s *stream) number(id string) uint64 {
	name, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || name != strconv.FormatInt(s.name, 16) {
		return 0
	}
	return n
}
