package gabionproxy

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"
	"sync"
)

// This file does what httputil.ReverseProxy does, by the same rules, with fewer copies. Upgrades are left to that.

// passed passes a request on, and its answer back, as a ReverseProxy with Rewrite, ModifyResponse told and an ErrorHandler.
func (p *Proxy) passed(w http.ResponseWriter, r *http.Request, e *exchange, by *httputil.ReverseProxy) {
	if e == nil || r.Header["Upgrade"] != nil {
		by.ServeHTTP(w, r)
		return
	}
	out := outgoing(r, e, by.Rewrite)
	e.firsts.to, e.early = w, &e.firsts
	resp, err := by.Transport.RoundTrip(out)
	e.early.end()
	if err == nil {
		hops(resp.Header)
		if err = told(resp); err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
			err = errSwitched
		}
		if err != nil {
			resp.Body.Close()
		}
	}
	if err != nil {
		by.ErrorHandler(w, out, err)
		return
	}
	answer(p, w, resp, e.whole.Load() == resp)
}

var errSwitched = errors.New("gabionproxy: the server switched to a protocol that was not asked for")

// outgoing is the request to the server.
func outgoing(r *http.Request, e *exchange, rewrite func(*httputil.ProxyRequest)) *http.Request {
	e.sent, e.at = *r, *r.URL
	out := &e.sent
	out.URL, out.Close = &e.at, false
	if r.ContentLength == 0 {
		out.Body = nil
	}
	if unfit(r.Header) {
		h := maps.Clone(r.Header)
		hops(h)
		for _, name := range forwarded {
			delete(h, name)
		}
		if slices.ContainsFunc(r.Header["Te"], trailers) {
			h["Te"] = []string{"trailers"}
		}
		if _, ok := h["User-Agent"]; !ok {
			h["User-Agent"] = noAgent // else net/http would make one up
		}
		out.Header = h
	}
	rewrite(&httputil.ProxyRequest{In: r, Out: out})
	return out
}

var noAgent = []string{""} // never changes

// forwarded are headers that clients may not set for servers.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// hopHeaders are about one connection (RFC 9110, 7.6.1).
var hopHeaders = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// unfit reports whether headers of a client can't be passed on as they are.
func unfit(h http.Header) bool {
	has := func(name string) bool { _, ok := h[name]; return ok }
	return !has("User-Agent") || slices.ContainsFunc(hopHeaders, has) || slices.ContainsFunc(forwarded, has)
}

// hops takes out what is about one connection.
func hops(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopHeaders {
		delete(h, name)
	}
}

// trailers reports whether a line of TE has that word.
func trailers(line string) bool {
	for word := range strings.SplitSeq(line, ",") {
		if strings.EqualFold(textproto.TrimString(word), "trailers") {
			return true
		}
	}
	return false
}

// answer passes an answer on. If it breaks off the client's connection is cut, which is all that can be said by then.
func answer(p *Proxy, w http.ResponseWriter, resp *http.Response, whole bool) {
	h := w.Header()
	maps.Copy(h, resp.Header)
	announced := len(resp.Trailer)
	if announced > 0 {
		h["Trailer"] = []string{strings.Join(slices.Sorted(maps.Keys(resp.Trailer)), ", ")}
	}
	w.WriteHeader(resp.StatusCode)
	err := pour(w, resp, whole)
	resp.Body.Close()
	if err != nil {
		p.options.Log.Debug("an answer broke off", "error", err)
		if resp.Request.Context().Value(http.ServerContextKey) != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	if len(resp.Trailer) == 0 {
		return
	}
	_ = http.NewResponseController(w).Flush() // the answer is chunked, however short it is
	if len(resp.Trailer) == announced {
		maps.Copy(h, resp.Trailer)
		return
	}
	for name, lines := range resp.Trailer {
		h[http.TrailerPrefix+name] = lines
	}
}

// pour copies the body: at once where it may be a stream, unless the whole of it is here.
func pour(w http.ResponseWriter, resp *http.Response, whole bool) error {
	if resp.Body == http.NoBody {
		return nil
	}
	flush := func() error { return nil }
	if resp.ContentLength < 0 && !whole || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		flush = http.NewResponseController(w).Flush
		if err := flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	buffer := buffers.Get()
	defer buffers.Put(buffer)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err := flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// early passes on answers of 1xx, until there is the last one.
type early struct {
	mu sync.Mutex
	to http.ResponseWriter // nil when it is over
}

func (a *early) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = nil
}

// entire notes an answer whose body is in memory.
func entire(resp *http.Response) {
	if e := exchangeOf(resp.Request.Context()); e != nil {
		e.whole.Store(resp)
	}
}

// Got1xx implements [adapter.Early]: it passes on an answer of 1xx.
func (e *exchange) Got1xx(status int, h textproto.MIMEHeader) error {
	if e.early == nil {
		return nil
	}
	e.early.mu.Lock()
	defer e.early.mu.Unlock()
	if w := e.early.to; w != nil {
		maps.Copy(w.Header(), http.Header(h))
		w.WriteHeader(status)
		clear(w.Header())
	}
	return nil
}

// heralded is a request that no policy follows, whose answers of 1xx are passed on.
func heralded(r *http.Request) *http.Request {
	e := exchangeOf(r.Context())
	if e == nil || e.early == nil {
		return r
	}
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: e.Got1xx}))
}

// standard is net/http's Transport.
type standard struct{ *http.Transport }

// Inside implements adapter.Around.
func (s standard) Inside() http.RoundTripper { return s.Transport }

// Prompt implements adapter.Prompt: over HTTP/1.1 net/http waits for the reader of a body, and over HTTP/2 it closes the body and does not wait.
func (s standard) Prompt(*http.Request) bool { return !s.Protocols.HTTP1() }
