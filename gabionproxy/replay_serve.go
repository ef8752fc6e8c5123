package gabionproxy

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// lingers is how long the rest of a body is read that has no use any more, so that its client gets to
// see the answer before the connection is closed.
const lingers = 500 * time.Millisecond

// replayLimit is how much of a body is kept for further attempts, as the dependency's policy says.
func (u *upstream) replayLimit() int {
	if u.plain.Dependency == nil {
		return 0
	}
	return max(adapter.Of(u.plain.Dependency).PolicyInForce().HTTP.ReplayLimit, 0)
}

// remember keeps up to limit bytes of the request's body for further attempts, until forget. It returns the exchange, also if there is nothing to remember.
func (p *Proxy) remember(r *http.Request, limit int) *exchange {
	e := exchangeOf(r.Context())
	if e != nil && r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody {
		e.body, e.turns = p.bodies.remember(r, limit), r.ProtoMajor == 1
	}
	return e
}

func (e *exchange) forget() {
	if e == nil || e.body == nil {
		return
	}
	waits := e.body.end()
	if e.turns && (waits || e.unread) {
		e.body.linger(&e.client)
	}
}

// ofClient is the refusal of a request whose body broke off, or has no sound form: that is neither the
// server's fault nor the proxy's. It is nil for all others.
func ofClient(r *http.Request) *refusal {
	e := exchangeOf(r.Context())
	if e == nil || e.body == nil || e.body.broken() == nil {
		return nil
	}
	err := e.body.broken()
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &refusal{status: http.StatusRequestEntityTooLarge, reason: "body_too_large", title: "The body is larger than this listener takes",
			detail: "send less at once", attempts: e.verdict.Attempts(), cause: err}
	}
	return &refusal{status: http.StatusBadRequest, reason: "body_broken", title: "The body of the request broke off",
		detail: "send all of it, framed as its headers say", attempts: e.verdict.Attempts(), cause: err}
}

// noUpgrade takes a wish for HTTP/2 out of a request: who gets it granted speaks past the proxy.
func noUpgrade(out *http.Request) {
	if strings.EqualFold(strings.TrimSpace(out.Header.Get("Upgrade")), "h2c") {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
		out.Header.Del("Http2-Settings")
	}
}

// linger bounds for how long net/http reads the rest of a body before it lets go of a request
// of HTTP/1: otherwise that is as long as the client likes. A read that is under way is ended
// first, since net/http would lift the bound when it does that itself. The mark comes before the
// deadline, so that a read which gives the client time just now finds it afterwards.
func (b *replay) linger(w *patient) {
	w.unread.Store(true)
	if w.control.SetReadDeadline(time.Unix(1, 0)) != nil {
		return
	}
	b.mu.Lock()
	for b.reading {
		b.come.Wait()
	}
	b.mu.Unlock()
	_ = w.control.SetReadDeadline(time.Now().Add(lingers))
}

// resends gives a request that goes out its body. What net/http sends again by itself no policy
// sees, so that it is only gabionhttp that may ask for another one.
func (e *exchange) resends(out *http.Request) {
	out.GetBody = nil
	if e != nil && e.body != nil && out.Body != nil {
		e.body.attach(out)
	}
}

// answered frees the copy of the body: nothing is sent again. If the client is still sending,
// its connection ends with the answer, since what is left of the body could be read as the next
// request.
func (e *exchange) answered() {
	if e == nil || e.body == nil {
		return
	}
	if why := e.body.Fixed(); why != nil && e.verdict.Reason() == policy.BodyNotRewindable {
		e.note = "not repeatable: " + why.Error()
	}
	e.unread = !e.body.accept() && e.turns // in HTTP/2 streams do not wait for each other
}

// closes says so on the answer.
func (e *exchange) closes(h http.Header) {
	if e != nil && e.unread {
		h["Connection"] = []string{"close"}
	}
}
