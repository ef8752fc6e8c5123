package gabionhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// judge says what an attempt brought, and whether its request could be sent again.
func judge(f *httpAttempt, err error) policy.Outcome {
	if f == nil {
		return classify.Error(err)
	}
	var o policy.Outcome
	if err == nil {
		o = f.answered(time.Now)
	} else {
		o = f.outcome(err)
	}
	o = f.decided(o, err)
	if o.Class != policy.ClassSuccess {
		if f.of.body.broken() { // the server answered to half of the body
			o.Class = policy.ClassIgnored
		}
		o.Fixed = f.of.body.fixed()
		f.of.attend()
		if f.resp != nil {
			f.of.status.Store(f.statusError().packed())
		}
	}
	return o
}

// WithClassify returns a context whose requests are read by by in place of the
// dependency's classifier ([gabion.WithClassify]); the rules are the same.
//
// A classifier is asked about every answer and every failure of a [Transport]. For an
// answer its result is the [*http.Response] and its error is nil; for a failure its
// result is nil. The zero Outcome and the classes Unclassified and Success decide
// nothing: the status, the policy's lists and the type of the error then decide, as
// without it.
// What it does decide counts more than the policy's lists, and these facts are kept
// all the same: the marks that stop retries, a Retry-After where it says that the
// failure is transient, what an answer says of the idempotency key, and whether a
// request was sent.
//
// It may read the answer's body, and has the first 8 KiB of it; the caller
// still reads all of it. It sees the bytes as they came, which are packed if the
// request asked for a Content-Encoding by itself. A body of unknown length may be a
// stream that has nothing to say for hours: of that, it has what comes within 100 ms.
// What it does not read costs nothing. It must not change the answer, nor keep it.
//
// An answer that it calls a failure is retried like any other; when the attempts are
// used up, RoundTrip returns that answer, without an error.
func WithClassify(ctx context.Context, by func(*http.Response, error) policy.Outcome) context.Context {
	return context.WithValue(ctx, classifierKey{}, classifier(by))
}

type classifierKey struct{}

type classifier func(*http.Response, error) policy.Outcome

// learnClassifier finds out who is asked before the status is.
func (c *exchange) learnClassifier(of adapter.Dependency) error {
	if by, _ := c.from.Context().Value(classifierKey{}).(classifier); by != nil {
		c.asked = by
		return nil
	}
	switch by := of.Classifier().(type) {
	case nil:
	case func(*http.Response, error) policy.Outcome:
		c.asked = by
	case func(any, error) policy.Outcome:
		c.asked = func(resp *http.Response, err error) policy.Outcome {
			if resp == nil {
				return by(nil, err)
			}
			return by(resp, err)
		}
	default:
		return fmt.Errorf("the dependency's classifier is a %T: a Transport's results are *http.Response", by)
	}
	return nil
}

// decided is o unless the classifier says otherwise.
func (f *httpAttempt) decided(o policy.Outcome, err error) policy.Outcome {
	by := f.of.asked
	if by == nil || o.Class == policy.ClassIgnored || f.said != nil && f.said.Problem != gabion.KeyInFlight {
		return o
	}
	var said policy.Outcome
	if err == nil {
		said = f.show(by)
	} else {
		said = by(nil, err)
	}
	switch {
	case said.Class == policy.ClassUndecided || said.Class == policy.ClassSuccess || said.Class == policy.ClassUnclassified:
		return o
	case err != nil:
		if said.NeverSent = o.NeverSent; o.NeverSent {
			said.Effect = policy.NoEffect
		}
		return said
	}
	said.NeverSent = false
	if f.seen.now().wrote > 1 { // the answer speaks of the last sending only
		said.Effect, said.Undone = policy.UnknownEffect, false
	}
	said.Stop = said.Stop || stops(f.resp) || f.rpc != nil && o.Stop
	switch {
	case !said.Class.Transient() || said.HasAfter:
	case f.rpc != nil:
		said.After, said.HasAfter, said.Exact, said.Alone = o.After, o.HasAfter, o.Exact, o.Alone
	default:
		said.After, said.HasAfter = comeBack(f.resp.Header, time.Now)
	}
	return said
}

// show asks by about the answer.
func (f *httpAttempt) show(by classifier) policy.Outcome {
	seen := *f.resp
	seen.Trailer = seen.Trailer.Clone()
	body := f.resp.Body
	if _, upgraded := body.(io.Writer); upgraded || body == nil || body == http.NoBody {
		seen.Body = http.NoBody
		return by(&seen, nil)
	}
	g := &glimpse{f: f, body: body}
	if f.resp.ContentLength < 0 {
		g.until = time.Now().Add(glimpseTime)
	}
	defer g.end()
	seen.Body = g
	return by(&seen, nil)
}

// glimpseTime is how long a classifier may wait for the beginning of a body of unknown
// length. A stream's first event may be hours away.
const glimpseTime = 100 * time.Millisecond

// glimpse is a body as a classifier sees it. The first Read puts a body in its place
// that keeps what was read.
type glimpse struct {
	f     *httpAttempt
	body  io.ReadCloser
	until time.Time // zero means that the body's length is known
	kept  *keptBody
	at    int
}

// Read reads of the first 8 KiB what is there.
func (g *glimpse) Read(b []byte) (int, error) {
	if g.kept == nil {
		g.f.resp, g.kept = keep(g.f.resp, peekLimit)
		if !g.until.IsZero() {
			g.kept.filling = true
			go g.kept.fill()
		}
	}
	n, err := g.kept.look(b, g.at, g.until)
	g.at += n
	return n, err
}

// Close does nothing: the body is not the classifier's to close.
func (g *glimpse) Close() error { return nil }

func (g *glimpse) end() {
	if g.kept != nil {
		g.kept.suffices()
	}
}

// keptBody is a body whose beginning was looked at before it is read.
type keptBody struct {
	body io.ReadCloser
	from *http.Response // whose trailers are written while its body is read
	to   *http.Response // whose trailers are written when the caller has come to the end
	told bool           // that was done

	mu      sync.Mutex
	come    sync.Cond    // something was read, or filling ended
	head    bytes.Buffer // read and not yet handed on
	err     error        // with which the head ends
	filling bool         // a goroutine reads the beginning
	enough  bool         // it is to stop: the classifier has seen what it wanted
	most    int          // how much the goroutine reads
}

// keep returns an answer to hand on in place of resp, and its body, which keeps what was
// read of resp's. A goroutine may then read that body: it also writes the trailers of
// resp, at which the caller may be looking.
func keep(resp *http.Response, most int) (*http.Response, *keptBody) {
	k := &keptBody{body: resp.Body, from: resp, to: new(http.Response), most: most}
	k.come.L = &k.mu
	*k.to = *resp
	k.to.Body, k.to.Trailer = k, resp.Trailer.Clone()
	return k.to, k
}

// trail hands on the trailers, once. The body has come to its end.
func (k *keptBody) trail() {
	if k.told {
		return
	}
	k.told = true
	if k.to.Trailer == nil && len(k.from.Trailer) > 0 {
		k.to.Trailer = make(http.Header, len(k.from.Trailer))
	}
	maps.Copy(k.to.Trailer, k.from.Trailer)
}

// suffices lets the goroutine stop.
func (k *keptBody) suffices() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.enough = true
}

// ended reports whether the body has come to its end.
func (k *keptBody) ended() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Is(k.err, io.EOF)
}

// look copies what was read from off on, and reads more if there is nothing to copy.
func (k *keptBody) look(b []byte, off int, until time.Time) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !until.IsZero() {
		k.await(off, until)
	} else if off == k.head.Len() && off < peekLimit && k.err == nil {
		k.keep(b[:min(len(b), peekLimit-off)])
	}
	n := copy(b, k.head.Bytes()[off:])
	switch {
	case n > 0 || len(b) == 0:
		return n, nil
	case k.err != nil:
		return 0, k.err
	}
	return 0, io.EOF
}

// await waits until more than off bytes are there, or there is no more.
func (k *keptBody) await(off int, until time.Time) {
	timer := time.AfterFunc(time.Until(until), func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.come.Broadcast()
	})
	defer timer.Stop()
	for k.filling && k.head.Len() <= off && time.Now().Before(until) {
		k.come.Wait()
	}
}

// keep reads once into b and keeps what came.
func (k *keptBody) keep(b []byte) {
	n, err := k.body.Read(b)
	k.head.Write(b[:n])
	k.err = err
}

// errBodyLeft is the end of a body whose Read neither returned nor said why.
var errBodyLeft = errors.New("gabionhttp: the answer's body ended its reader's goroutine")

// fill reads the beginning of a body, until there is enough of it. It ends when the
// body does or is closed. A panic of the body becomes an error of the next Read.
func (k *keptBody) fill() {
	b, whole := make([]byte, k.most), false
	defer func() {
		v := recover()
		if whole {
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.err = errBodyLeft; v != nil {
			k.err = fmt.Errorf("gabionhttp: the answer's body panicked: %v", v)
		}
		k.filling = false
		k.come.Broadcast()
	}()
	for {
		n, err := k.body.Read(b)
		k.mu.Lock()
		k.head.Write(b[:n])
		k.err = err
		b = b[n:]
		k.filling = err == nil && len(b) > 0 && !k.enough
		more := k.filling
		k.come.Broadcast()
		k.mu.Unlock()
		if !more {
			whole = true
			return
		}
	}
}

// Read hands on what was read before, and then the rest.
func (k *keptBody) Read(b []byte) (int, error) {
	k.mu.Lock()
	for k.filling && k.head.Len() == 0 {
		k.come.Wait()
	}
	defer k.mu.Unlock()
	switch {
	case k.head.Len() > 0:
		return k.head.Read(b)
	case k.err != nil:
		if k.err == io.EOF {
			k.trail()
		}
		return 0, k.err
	}
	n, err := k.on(b)
	if err == io.EOF {
		k.trail()
	}
	return n, err
}

// on reads on where the kept beginning ends. It is the only reader now, and Close must
// not wait for this.
func (k *keptBody) on(b []byte) (int, error) {
	k.mu.Unlock()
	defer k.mu.Lock()
	return k.body.Read(b)
}

// Close closes the body itself, which ends a pending Read.
func (k *keptBody) Close() error { return k.body.Close() }
