package idempotency

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Handler makes another handler idempotent: see the package comment. It belongs
// inside authentication, so that a caller whose access was taken away gets no
// stored answers, and outside the limits of the route, whose refusals call
// [NoEffect].
//
// The context that the handler sees has the request's values, but not its deadline, and it
// does not end when the client goes: half of the work would be of no use. It ends when the
// lease is lost, after MaxExecution, and when the handler returns. So gabionhttp.Deadline
// belongs outside, where it refuses before a key is claimed; under [GuaranteeHold] a
// refusal from inside would be kept as the answer. Work that should stop when its caller's
// time is over reads gabionhttp.TimeLeft.
//
// Make one with [New]. Safe for concurrent use.
//
// In tests with testing/synctest, make it and its store inside the bubble. One that was
// made elsewhere works there, but its store has the records of all bubbles, whose clocks
// differ by decades: to one that runs at the same time a lease of this one may look long
// over, and the runtime ends the program when a run ends for which a duplicate in another
// bubble waits.
type Handler struct {
	core
	config Config
	scope  func(*http.Request) string
	next   http.Handler
	prints fingerprinter
	keep   map[string]bool // further headers to keep
	limit  int             // most bytes of a body to keep

	consumed sync.Once // tells of bodies that were read before
}

// New returns a Handler around next. The scope says on whose behalf a request is made: a
// tenant, an account, a principal. Keys of different scopes never meet. It is mandatory,
// for without it one caller's key would get another's answer; [Global] says that this is
// meant. It is asked after authentication, which belongs outside the Handler. An empty
// scope refuses the request. New returns everything that is wrong with its arguments.
func New(scope func(*http.Request) string, store Store, next http.Handler, config Config) (*Handler, error) {
	h := &Handler{config: config.resolved(), scope: scope, next: next}
	all := []error{config.Validate(), h.init(store, config.RunnerConfig)}
	if scope == nil {
		all = append(all, errors.New("scope is missing: say whose keys they are, or Global"))
	}
	if next == nil {
		all = append(all, errors.New("the next handler is missing"))
	}
	if err := errors.Join(all...); err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	h.limit = h.config.MaxResponseBody
	if most := store.Caps().MaxValue; most > 0 {
		h.limit = min(h.limit, most)
	}
	h.keep = headerSet(config.KeepHeaders...)
	h.prints = fingerprinter{secret: config.Secret, headers: h.config.FingerprintHeaders, canonical: config.Canonical}
	h.warn()
	return h, nil
}

// ServeHTTP implements [http.Handler]. It panics with [http.ErrAbortHandler], as net/http
// has it, when a response that is on its way turns out not to stand, and goes on with a
// panic of the handler's.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(h.config.Methods, r.Method) {
		if _, found, _ := h.key(r); found {
			w.Header()[headerStatus] = ignored
		}
		h.next.ServeHTTP(w, r)
		return
	}
	in, no := h.read(w, r)
	switch {
	case no != nil:
		h.turnedAway(r.Context(), no.problem)
		h.refuse(w, r, in.claim.ID, *no)
	case !in.found:
		h.next.ServeHTTP(w, r)
	case h.tx != nil:
		h.serveTx(w, r, in)
	default:
		h.serve(w, r, in)
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, in input) {
	asked := time.Now()
	a, begun, err := h.ask(r.Context(), in.claim, new(lateContext))
	h.decided(r.Context(), a, asked, err)
	switch {
	case err != nil:
		h.unanswered(w, r, in, err)
	case a.Decision == DecisionRun:
		h.run(w, r, in, a.Record, begun)
	default:
		h.answer(w, r, in.claim.ID, a)
	}
}

// unanswered answers when the store did not. A record that can't be read may be of
// work that was done, so FailOpen does not count.
func (h *Handler) unanswered(w http.ResponseWriter, r *http.Request, in input, err error) {
	if errors.Is(err, ErrUnreadable) {
		h.refuse(w, r, in.claim.ID, refusal{problem: problemRecordUnreadable, err: err})
		return
	}
	if h.config.FailOpen {
		h.tell(r.Context(), Event{Kind: eventFailedOpen, ID: in.claim.ID, Err: err})
		w.Header()[headerStatus] = notRecorded
		h.next.ServeHTTP(w, in.request(r.Context(), r, new(replayedBody)))
		return
	}
	h.refuse(w, r, in.claim.ID, refusal{problem: problemStoreUnavailable, retryAfter: time.Second, err: err})
}

// declines reports whether answers with a status are not kept.
func (h *Handler) declines(status int) bool { return slices.Contains(h.config.NotKept, status) }

// answer answers a claim that was not granted.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, id ID, a Answer) {
	switch {
	case a.Decision == DecisionReplay && a.Record.Result.Omitted:
		h.refuse(w, r, id, refusal{problem: problemNotRetained, original: a.Record.Result})
	case a.Decision == DecisionReplay:
		h.replay(w, r, id, a.Record.Result)
	case a.Decision == DecisionMismatch:
		h.refuse(w, r, id, refusal{problem: problemMismatch, status: h.config.MismatchStatus})
	case a.Decision == DecisionInProgress:
		h.refuse(w, r, id, refusal{problem: problemInProgress, retryAfter: min(max(a.Left, time.Second), 5*time.Second)})
	default:
		h.refuse(w, r, id, refusal{problem: problemUnknown})
	}
}

func (h *Handler) replay(w http.ResponseWriter, r *http.Request, id ID, res Result) {
	head := w.Header()
	head["Content-Type"] = nil // net/http guesses none
	put(head, res.Header)
	head[headerReplayed] = yes
	if len(res.Trailer) > 0 {
		maps.DeleteFunc(head, func(name string, _ []string) bool { return strings.HasPrefix(name, http.TrailerPrefix) })
		head[headerTrailer] = namesOf(res.Trailer)
	}
	sayLength(head, r, res)
	w.WriteHeader(cmp.Or(res.Status, http.StatusOK)) // Recover may not have set a status
	if len(res.Body) > 0 {
		w.Write(res.Body)
	}
	put(head, res.Trailer)
	h.tell(r.Context(), Event{Kind: eventReplayed, ID: id, Bytes: len(res.Body)})
}
