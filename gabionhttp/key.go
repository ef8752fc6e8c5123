package gabionhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
)

// keyHeaders are the names by which a request's key goes, the ones that net/http
// knows too.
var keyHeaders = [...]string{HeaderKey, "X-Idempotency-Key"}

// keyed reports whether a request carries an idempotency key.
func keyed(h http.Header) bool {
	for _, name := range keyHeaders {
		if h.Get(name) != "" {
			return true
		}
	}
	return false
}

// replayable reports whether net/http takes h for leave to send a request again.
// A name without a value is enough; it does not go over the wire.
func replayable(h http.Header) bool {
	for _, name := range keyHeaders {
		if _, there := h[name]; there {
			return true
		}
	}
	return false
}

var errKeys = errors.New("gabionhttp: the request has more than one idempotency key, or an empty one")

// headerKey is the key in the request itself. What servers must refuse is refused
// here: two lines, two names that differ, and a line without a value.
func headerKey(h http.Header) (key string, err error) {
	for _, name := range keyHeaders {
		for _, value := range h[name] {
			value = textproto.TrimString(value) // as net/http writes it
			if value == "" || key != "" && key != value || len(h[name]) > 1 {
				return "", fmt.Errorf("%w (%w)", errKeys, gabion.KeyMalformed)
			}
			key = value
		}
	}
	return key, nil
}

// learnKey finds the call's key: in the request, or in the call of gabion's around
// it. The latter is for the one effect that the call is about, so reading does not
// take it.
func (c *exchange) learnKey() (err error) {
	if err = c.redirected(); err != nil || c.strayed {
		return err
	}
	c.key, err = headerKey(c.from.Header)
	switch {
	case err != nil || c.key == "" && reads(c.req.Method):
		return err
	case c.key != "":
		adapter.Sends(c.req.Context(), c.key)
		return nil
	}
	c.key = gabion.Key(c.req.Context())
	return nil
}

// oddKey finds the name of a key that is not written as net/http writes it, as a map's
// key can be: the wire knows no difference, and looking it up does.
func oddKey(h http.Header) (name string, found bool) {
	if len(h) == 0 { // as often: to range over no header takes a hundred instructions
		return "", false
	}
	for name := range h {
		if (len(name) == len(keyHeaders[0]) || len(name) == len(keyHeaders[1])) && name != keyHeaders[0] && name != keyHeaders[1] &&
			(strings.EqualFold(name, keyHeaders[0]) || strings.EqualFold(name, keyHeaders[1])) {
			return name, true
		}
	}
	return "", false
}

// plainKeys gives every key in h the name that it is looked up by.
func plainKeys(h http.Header) {
	for {
		name, found := oddKey(h)
		if !found {
			return
		}
		plain := http.CanonicalHeaderKey(name)
		h[plain] = append(h[plain], h[name]...)
		delete(h, name)
	}
}

// KeyError is what a server said of the request's idempotency key. It is the Err of
// what [Verdict] returns: errors.Is finds the [gabion.KeyProblem] and errors.As this.
type KeyError struct {
	Problem gabion.KeyProblem

	// Status is the answer's.
	Status int

	// OriginalStatus and Location are those of the first answer, with
	// [gabion.KeyAnswerNotKept], as far as the server tells. Zero means that it does not.
	OriginalStatus int
	Location       string
}

// Error reads "409 Conflict: it is unknown whether the request was carried out".
func (e *KeyError) Error() string {
	return fmt.Sprintf("%d %s: %v", e.Status, http.StatusText(e.Status), e.Problem)
}

// Unwrap returns the problem.
func (e *KeyError) Unwrap() error { return e.Problem }

// problemTypes are the ones of package idempotency, which a client need not link;
// a test compares.
var problemTypes = map[string]gabion.KeyProblem{
	"urn:gabion:idempotency:malformed":             gabion.KeyMalformed,
	"urn:gabion:idempotency:key-expired":           gabion.KeyExpired,
	"urn:gabion:idempotency:mismatch":              gabion.KeyReused,
	"urn:gabion:idempotency:in-progress":           gabion.KeyInFlight,
	"urn:gabion:idempotency:response-not-retained": gabion.KeyAnswerNotKept,
	"urn:gabion:idempotency:outcome-unknown":       gabion.KeyOutcomeUnknown,
}

// document is the part of an answer that speaks of keys: a problem of RFC 9457, or
// Stripe's error object.
type document struct {
	Type           string `json:"type"`
	OriginalStatus int    `json:"original_status"`
	Location       string `json:"location"`
	Error          struct {
		Type string `json:"type"`
		Code string `json:"code"`
	} `json:"error"`
}

func (d *document) problem() gabion.KeyProblem {
	switch {
	case problemTypes[d.Type] != 0:
		return problemTypes[d.Type]
	case d.Error.Code == "idempotency_key_in_use": // docs.stripe.com/error-codes
		return gabion.KeyInFlight
	case d.Error.Type == "idempotency_error": // docs.stripe.com/api/errors
		return gabion.KeyReused
	}
	return 0
}

// peekLimit is the most bytes of an answer that are read for what they say of the
// key. Ours have 300.
const peekLimit = 8 << 10

// peek reads what a refusal says of the request's key, and leaves the body as it
// was. It waits for no more than one JSON value.
func (f *httpAttempt) peek(resp *http.Response) {
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity:
	case http.StatusTooManyRequests:
		f.peekGoogle(resp)
		return
	default:
		return
	}
	if !keyed(f.out.Header) || resp.Body == nil || !plainJSON(resp.Header) {
		return
	}
	b := &peeked{body: resp.Body}
	resp.Body = b
	var d document
	err := json.NewDecoder(io.LimitReader(reader(b.fill), peekLimit)).Decode(&d)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !odd { // what is odd is left out, the rest counts
		f.unread = b.err != nil && b.err != io.EOF
		return
	}
	if p := d.problem(); p != 0 {
		f.said = &KeyError{Problem: p, Status: resp.StatusCode, OriginalStatus: d.OriginalStatus, Location: d.Location}
	}
}

// plainJSON reports whether a body is JSON that nothing has to be unpacked for.
func plainJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && h.Get("Content-Encoding") == "" &&
		(kind == "application/problem+json" || kind == "application/json")
}

// reader is a function as an io.Reader.
type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

// peeked is a body of which the beginning was read already.
type peeked struct {
	head bytes.Buffer
	body io.ReadCloser
	err  error // with which the beginning ended, if it did
}

// fill reads and keeps what it read.
func (p *peeked) fill(b []byte) (n int, err error) {
	n, p.err = p.body.Read(b)
	p.head.Write(b[:n])
	return n, p.err
}

// Read reads what was read before, and then the rest.
func (p *peeked) Read(b []byte) (int, error) {
	switch {
	case p.head.Len() > 0:
		return p.head.Read(b)
	case p.err != nil:
		return 0, p.err
	}
	return p.body.Read(b)
}

// Close closes the body itself.
func (p *peeked) Close() error { return p.body.Close() }
