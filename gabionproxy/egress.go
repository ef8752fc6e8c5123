package gabionproxy

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// The headers with which the proxy says what was done for an answer.
const (
	HeaderAttempts = "Gabion-Attempts" // how many requests were sent; 0 for a refusal before the first
	HeaderReason   = "Gabion-Reason"   // why it is not a plain success: a policy.Reason, or a word of the proxy's own such as "not_allowed"
)

// exchange is one request that is served.
type exchange struct {
	verdict gabionhttp.LastVerdict
	within  within
	note    string // why it could not be repeated, where only the proxy knows that
	body    *replay
	came    time.Time   // before a program
	asked   atomic.Bool // the program
	refused atomic.Bool // by the program, with a problem
	turns   bool        // of HTTP/1: a request ends before the next one begins
	early   *early      // nil where httputil.ReverseProxy passes answers of 1xx on
	client  patient
	whole   atomic.Pointer[http.Response] // the last answer that is in memory
	firsts  early                         // what early points to
	in      http.Request                  // as it came, with the context
	sent    http.Request                  // the request as it goes out, to at
	at      url.URL
	unread  bool // the answer came before the end of the client's body, and what is left is in the way
}

type exchangeKey struct{}

// within is the context of an exchange, which is part of that.
type within struct {
	context.Context
	e *exchange
}

// Value implements [context.Context].
func (w *within) Value(key any) any {
	switch key.(type) {
	case exchangeKey, adapter.EarlyKey:
		return w.e
	case adapter.VerdictKey: // as gabionhttp.WithVerdict has it
		return &w.e.verdict
	}
	return w.Context.Value(key)
}

func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

var onceSent = []string{"1"} // never changes

// tell writes what was done into the headers of an answer.
func (e *exchange) tell(h http.Header) {
	if e.verdict.Calls() == 0 {
		return
	}
	if h[HeaderAttempts] = onceSent; e.verdict.Attempts() != 1 {
		h[HeaderAttempts] = []string{strconv.Itoa(e.verdict.Attempts())}
	}
	if why := e.verdict.Reason(); why != policy.None {
		h[HeaderReason] = []string{why.String()}
	}
	if e.note != "" {
		h[HeaderReason] = append(h[HeaderReason], e.note)
	}
}

// leftHeaders are where clients may say how much time they have left.
var leftHeaders = []string{gabionhttp.HeaderDeadline, gabionhttp.HeaderEnvoyTimeout, gabionhttp.HeaderGRPCTimeout}

var errDeadline = fmt.Errorf("gabionproxy: the client's deadline is over: %w", context.DeadlineExceeded)

// serve serves one request, with the deadline and the priority that its client says.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, l *listener) {
	p.tally.requests.Add(1)
	p.tally.out.Add(1)
	e, done := new(exchange), false
	defer func() {
		p.tally.out.Add(-1)
		if !done { // the panic that cuts the connection goes on
			p.tally.cut.Add(1)
			e.client.broken()
		}
		e.client.end()
	}()
	e.within = within{r.Context(), e}
	ctx := context.Context(&e.within)
	if pri := serving.ReadPriority(r.Header[gabionhttp.HeaderPriority], true); pri != policy.PriorityNormal && l.config.Ingress.To == "" {
		ctx = gabion.ContextWithPriority(ctx, pri)
	}
	if left, ok, _ := gabionhttp.TimeLeft(r.Header, leftHeaders...); ok && l.config.Ingress.To == "" {
		timed, cancel := context.WithTimeoutCause(ctx, left, errDeadline)
		defer cancel()
		ctx = timed
	}
	e.in = *r.WithContext(ctx) // the copy that this makes stays on the stack
	r = &e.in
	out, in := &e.client, bound(&e.client, w, r, &l.config)
	switch {
	case in == nil:
		p.refuse(out, r, &refusal{status: http.StatusRequestEntityTooLarge, reason: "body_too_large", title: "The body is larger than this listener takes",
			detail: "send less at once", unsent: true})
	case in.URL.Opaque != "": // such as a:http://host/path, which is passed on without the a, and of which no route sees the path
		p.ambiguous(out, in)
	case in.Method == http.MethodConnect && len(l.config.Forward) == 0:
		p.refuse(out, in, &refusal{status: http.StatusNotImplemented, reason: "no_tunnels", title: "This listener opens no tunnels",
			detail: "use a listener with forward as HTTPS_PROXY", unsent: true})
	case upgrades(in):
		upgrading(p, out, in, l.handler)
	default:
		l.handler.ServeHTTP(out, in)
	}
	done = true
}

// table finds the server for a host and a path.
type table struct {
	proxy *Proxy
	rows  []row // the longest path first, and those with a host before those without
}

type row struct {
	host, path string
	to         *upstream
}

func (p *Proxy) routes(t *tree, routes []config.ProxyRoute, before *tree) (http.Handler, error) {
	tab := &table{proxy: p}
	for _, route := range routes {
		u, err := p.upstream(t, target{to: route.To, dependency: route.Dependency, tls: route.ToTLS}, before)
		if err != nil {
			return nil, err
		}
		tab.rows = append(tab.rows, row{hostOnly(route.Host), route.Path, u})
	}
	slices.SortStableFunc(tab.rows, func(a, b row) int {
		if (a.host == "") != (b.host == "") {
			return cmp.Compare(len(b.host), len(a.host))
		}
		return cmp.Compare(len(b.path), len(a.path))
	})
	return tab, nil
}

// ServeHTTP implements [http.Handler].
func (t *table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := hostOnly(r.Host)
	undone, cut, name := readings(r.URL)
	to := t.find(host, undone)
	switch {
	case cut != undone && t.find(host, cut) != to, name != undone && t.find(host, name) != to:
		t.proxy.ambiguous(w, r)
		return
	case to != nil:
		to.ServeHTTP(w, r)
		return
	}
	t.proxy.refuse(w, r, &refusal{status: http.StatusNotFound, reason: "no_route", title: "No route has this host and path",
		detail: "add a route to the proxy's configuration, or fix the host and the path", unsent: true})
}

// find returns nil where no row has a host and a path.
func (t *table) find(host, path string) *upstream {
	for i := range t.rows {
		if row := &t.rows[i]; (row.host == "" || row.host == host) && row.covers(path) {
			return row.to
		}
	}
	return nil
}

// covers reports whether a path is the row's or below it.
func (r *row) covers(path string) bool {
	switch {
	case r.path == "" || path == r.path:
		return true
	case strings.HasSuffix(r.path, "/"):
		return strings.HasPrefix(path, r.path)
	}
	return strings.HasPrefix(path, r.path) && path[len(r.path)] == '/'
}

// buffers are what bodies are copied with.
var buffers = &bufferPool{sync.Pool{New: func() any { return new([32 << 10]byte) }}}

type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

func (b *bufferPool) Put(p []byte) {
	if len(p) == 32<<10 {
		b.pool.Put((*[32 << 10]byte)(p))
	}
}

// errorLog is what net/http says, at the level of what need not be read: the proxy answers and counts failures itself.
func errorLog(p *Proxy) *log.Logger {
	return slog.NewLogLogger(p.options.Log.Handler(), slog.LevelDebug)
}
