package idempotency

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Global is the scope of a service whose callers all may see each other's answers. It
// is "*", which is what gabion idempotency takes as --scope '*'.
func Global(*http.Request) string { return "*" }

// Config is how a [Handler] works. The zero value is sound: a key is required for
// POST and PATCH, and the guarantee is Hold.
type Config struct {
	// RunnerConfig is what does not concern HTTP.
	RunnerConfig

	// Methods are those that take a key; others pass through. Nil means POST and
	// PATCH.
	Methods []string

	// Headers are the request headers that may hold the key. Nil means
	// Idempotency-Key alone. Two that differ are refused.
	Headers []string

	// Optional lets requests without a key pass through, unprotected.
	Optional bool

	// Secret keys the fingerprints. All processes on one store need the same, and a
	// change makes every retry of an earlier request a mismatch. If it is empty, a
	// reader of the store can test guesses of bodies.
	Secret []byte

	// FingerprintHeaders are request headers that belong to the request's meaning,
	// such as an API version.
	FingerprintHeaders []string

	// Canonical returns the form of a body in which honest retries are equal. Nil
	// means as received. See CanonicalJSON and CanonicalMultipart. It is not asked
	// about streamed bodies.
	Canonical func(r *http.Request, body []byte) []byte

	// RejectExpired refuses keys that are UUIDs of version 7 older than Retention,
	// instead of running them as new.
	RejectExpired bool

	// MaxRequestBody is the largest request body that is read before the claim, in
	// bytes. Zero means 1 MiB. Larger ones are refused, unless MaxStreamedBody allows
	// them.
	MaxRequestBody int64

	// MaxStreamedBody is the largest request body with a Content-Digest (RFC 9530, of
	// sha-256 or sha-512), in bytes. Zero means that the header is not looked at.
	//
	// A body over MaxRequestBody is claimed on the word of its digest, and the handler
	// reads it as it comes, within MaxExecution. Its end is held back until the whole is
	// verified; [ErrDigest] takes its place when it is not what the digest says. What a
	// handler makes of a body that was not verified is never kept as a success: under
	// Hold the outcome is unknown, otherwise the next request runs. What a handler that
	// succeeds leaves unread is read for it. A smaller body is verified before the claim.
	MaxStreamedBody int64

	// MaxResponseBody is the largest response body that is kept. A longer one is sent
	// in full and not kept: retries are told so, and nothing is run again. Zero means
	// 1 MiB. The store may have a lower bound.
	MaxResponseBody int

	// KeepHeaders are further response headers to keep. Cookies, credentials, dates
	// and what belongs to the connection are never kept.
	KeepHeaders []string

	// NotKept are statuses, 400 to 599, of answers that are not kept: the next request
	// for the key runs anew, with whatever body. List only what your handler answers
	// before it has any effect, such as 401, 403, 404, 409, 422 and 423; for single
	// answers there is [DoNotKeep]. Under Tx they are rolled back, unless the handler
	// called [CommitError]. Nil: of errors all are kept that the guarantee keeps.
	NotKept []int

	// MismatchStatus answers a key that was used for another request: 422 (zero), 400
	// or 409.
	MismatchStatus int

	// FailOpen runs the handler unprotected when the store does not answer. For work
	// where twice is better than not at all.
	FailOpen bool

	// Docs is where problem types are described, for clients' developers. The kind of
	// problem is appended as a fragment. Empty means this project's page.
	Docs string
}

const defaultDocs = "https://github.com/gabion-go/gabion/blob/main/docs/idempotency.md"

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	all := []error{c.RunnerConfig.Validate()}
	all = append(all, negative("max request body", c.MaxRequestBody), negative("max streamed body", c.MaxStreamedBody),
		negative("max response body", int64(c.MaxResponseBody)))
	if most := c.resolved().MaxRequestBody; c.MaxStreamedBody > 0 && c.MaxStreamedBody < most {
		all = append(all, fmt.Errorf("max streamed body: %d is less than what is read before the claim, %d", c.MaxStreamedBody, most))
	}
	if c.Guarantee == GuaranteeTx && c.FailOpen {
		all = append(all, errors.New("fail open: without the database there is no transaction to work in"))
	}
	if c.ConnectionsPerRun > 0 && c.FailOpen {
		all = append(all, errors.New("fail open: runs that began without a connection for them would take those of the others"))
	}
	if c.Methods != nil && (len(c.Methods) == 0 || slices.ContainsFunc(c.Methods, func(m string) bool { return m == "" || m != strings.ToUpper(m) })) {
		all = append(all, fmt.Errorf("methods: %q leaves requests unprotected: names are in upper case, and there is one at least", c.Methods))
	}
	if c.Headers != nil && (len(c.Headers) == 0 || slices.ContainsFunc(c.Headers, unnamed)) {
		all = append(all, fmt.Errorf("headers: %q leaves requests unprotected: no key comes in them", c.Headers))
	}
	if slices.Contains(canonicalNames(c.FingerprintHeaders), "Host") {
		all = append(all, errors.New("fingerprint headers: net/http keeps Host apart from them: tell hosts apart by the scope"))
	}
	switch c.MismatchStatus {
	case 0, http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity:
	default:
		all = append(all, fmt.Errorf("mismatch status: %d is not 400, 409 or 422", c.MismatchStatus))
	}
	for _, status := range c.NotKept {
		if status < 400 || status > 599 {
			all = append(all, fmt.Errorf("not kept: %d is no error (400 to 599): successes are always kept", status))
		}
	}
	for _, name := range c.KeepHeaders {
		if forbidden(http.CanonicalHeaderKey(name)) {
			all = append(all, fmt.Errorf("keep headers: %s is never kept", name))
		}
	}
	return errors.Join(all...)
}

// unnamed reports whether no header can have that name (RFC 9110, section 5.1).
func unnamed(name string) bool {
	return name == "" || strings.ContainsAny(name, " \t\"(),/:;<=>?@[\\]{}")
}

func negative(name string, bound int64) error {
	if bound < 0 {
		return fmt.Errorf("%s: %d is negative", name, bound)
	}
	return nil
}

// resolved writes the defaults out. Its Header names are canonical.
func (c Config) resolved() Config {
	c.RunnerConfig = c.RunnerConfig.resolved()
	c.MaxRequestBody, c.MaxResponseBody = cmp.Or(c.MaxRequestBody, 1<<20), cmp.Or(c.MaxResponseBody, 1<<20)
	c.MismatchStatus = cmp.Or(c.MismatchStatus, http.StatusUnprocessableEntity)
	c.Docs = cmp.Or(c.Docs, defaultDocs)
	if c.Methods == nil {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if c.Headers == nil {
		c.Headers = []string{headerKey}
	}
	c.Headers, c.FingerprintHeaders = canonicalNames(c.Headers), canonicalNames(c.FingerprintHeaders)
	return c
}

func canonicalNames(names []string) []string {
	canonical := make([]string, len(names))
	for i, name := range names {
		canonical[i] = http.CanonicalHeaderKey(name)
	}
	return canonical
}
