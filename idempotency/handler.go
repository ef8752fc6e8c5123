package idempotency

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// A Handler makes another handler idempotent: see the package comment. It belongs
// inside authentication, so that a caller whose access was taken away gets no
// stored answers, and outside the limits of the route, whose refusals call
// [NoEffect]. Make one with [New]. Safe for concurrent use.
type Handler struct {
	config  Config
	scope   Scope
	store   Store
	tx      TxStore // set with Tx
	next    http.Handler
	prints  fingerprinter
	keep    map[string]bool // further headers to keep
	limit   int             // most bytes of a body to keep
	waiting waitingRoom
	later   atomic.Int64 // goroutines that bring a result to the store after its response was sent
	nonce   [8]byte
	claims  atomic.Uint64
}

// New returns a Handler around next. The scope is mandatory: without it one
// caller's key would get another's answer; [Global] says that this is meant. It
// returns everything that is wrong with its arguments.
func New(scope Scope, store Store, next http.Handler, config Config) (*Handler, error) {
	all := []error{config.Validate()}
	if scope == nil {
		all = append(all, errors.New("scope is missing: say whose keys they are, or Global"))
	}
	if store == nil || next == nil {
		all = append(all, errors.New("store or next handler is missing"))
	}
	tx, _ := store.(TxStore)
	if config.Guarantee == Tx && tx == nil {
		all = append(all, errors.New("guarantee tx: the store has no transactions"))
	}
	if err := errors.Join(all...); err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	config = config.resolved()
	h := &Handler{config: config, scope: scope, store: store, tx: tx, next: next, limit: config.MaxResponseBody}
	if most := store.Caps().MaxValue; most > 0 {
		h.limit = min(h.limit, most)
	}
	h.keep = headerSet(config.KeepHeaders...)
	h.prints = fingerprinter{secret: config.Secret, headers: config.FingerprintHeaders, canonical: config.Canonical}
	h.waiting.perKey, h.waiting.max = config.WaitersPerKey, config.Waiters
	rand.Read(h.nonce[:]) // never fails (crypto/rand)
	h.warn()
	return h, nil
}

// warn tells what weakens the store, in the default log if nobody observes: a
// service whose keys don't survive a power cut must not learn it from one.
func (h *Handler) warn() {
	to := h.config.Observer
	if to == nil {
		to = LogTo(slog.Default())
	}
	for _, w := range h.store.Caps().Warnings {
		h.tellTo(context.Background(), to, Notice{Signal: StoreUnsafe, Err: errors.New(w)})
	}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(h.config.Methods, r.Method) {
		if _, found, _ := h.key(r); found {
			w.Header()[HeaderStatus] = ignored
		}
		h.next.ServeHTTP(w, r)
		return
	}
	in, no := h.read(w, r)
	switch {
	case no != nil:
		h.refuse(w, r, in.claim.ID, *no)
	case !in.found:
		h.next.ServeHTTP(w, r)
	case h.tx != nil && h.config.Guarantee == Tx:
		h.serveTx(w, r, in)
	default:
		h.serve(w, r, in)
	}
}

// owner returns a nonce for a claim: unique across processes by its random half,
// within one by its counter.
func (h *Handler) owner() (o [16]byte) {
	copy(o[:], h.nonce[:])
	binary.BigEndian.PutUint64(o[8:], h.claims.Add(1))
	return o
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, in input) {
	a, begun, err := h.begin(r.Context(), in.claim)
	if err == nil && a.Decision == InProgress && h.config.Wait > 0 {
		a, begun, err = h.wait(r.Context(), in.claim.ID, a, func() (Answer, time.Time, error) { return h.claim(r.Context(), in.claim) })
	}
	if err == nil && a.Decision == Recover {
		h.findOut(r.Context(), in.claim.ID, a.Record)
		in.claim.Recover, in.claim.Owner = false, h.owner()
		a, begun, err = h.begin(r.Context(), in.claim)
	}
	switch {
	case err != nil:
		h.unanswered(w, r, in, err)
	case a.Decision == Run:
		h.run(w, r, in, a.Record, begun)
	default:
		h.answer(w, r, in.claim.ID, a)
	}
}

// begin claims, and tells.
func (h *Handler) begin(ctx context.Context, c Claim) (Answer, time.Time, error) {
	a, begun, err := h.claim(ctx, c)
	if h.config.Observer == nil {
		return a, begun, err
	}
	h.tell(ctx, Notice{Signal: Began, ID: c.ID, Decision: a.Decision, State: a.Record.State, Attempt: a.Record.Attempt, Took: time.Since(begun), Err: err})
	if a.Decision == OutcomeUnknown {
		h.tell(ctx, Notice{Signal: OutcomeLost, ID: c.ID, State: Unknown, Attempt: a.Record.Attempt})
	}
	return a, begun, err
}

// claimTries is how often a claim without an answer is repeated: with the same
// owner that is safe, and a claim that was granted unheard would block the key.
const claimTries = 3

// claim asks the store. It does not end when the client goes, so that no claim is
// granted of which nobody hears. It returns when it began: the lease did not begin
// before.
func (h *Handler) claim(ctx context.Context, c Claim) (a Answer, begun time.Time, err error) {
	begun = time.Now()
	bound := newBounded(ctx, begun.Add(h.config.StoreTimeout))
	defer bound.stop()
	pause := 10 * time.Millisecond
	for n := 1; ; n++ {
		a, err = h.store.Begin(bound, c)
		if err == nil || refused(err) || n == claimTries || !sleep(bound, pause) {
			return a, begun, err
		}
		pause *= 4
	}
}

// refused reports whether the store answered, and said no.
func refused(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrLeaseLost)
}

// sleep waits and reports whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// unanswered answers when the store did not. A record that can't be read may be of
// work that was done, so FailOpen does not count.
func (h *Handler) unanswered(w http.ResponseWriter, r *http.Request, in input, err error) {
	if errors.Is(err, ErrUnreadable) {
		h.refuse(w, r, in.claim.ID, refusal{problem: RecordUnreadable, err: err})
		return
	}
	if !refused(err) {
		h.disown(r.Context(), in.claim)
	}
	if h.config.FailOpen {
		h.tell(r.Context(), Notice{Signal: FailedOpen, ID: in.claim.ID, Err: err})
		w.Header()[HeaderStatus] = notRecorded
		h.next.ServeHTTP(w, in.request(r.Context(), r, new(replayedBody)))
		return
	}
	h.refuse(w, r, in.claim.ID, refusal{problem: StoreUnavailable, retryAfter: time.Second, err: err})
}

// answer answers a claim that was not granted.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, id ID, a Answer) {
	switch {
	case a.Decision == Replay && a.Record.Result.Omitted:
		h.refuse(w, r, id, refusal{problem: NotRetained, original: a.Record.Result})
	case a.Decision == Replay:
		h.replay(w, r, id, a.Record.Result)
	case a.Decision == Mismatch:
		h.refuse(w, r, id, refusal{problem: Mismatched, status: h.config.MismatchStatus})
	case a.Decision == InProgress:
		h.refuse(w, r, id, refusal{problem: StillRunning, retryAfter: min(max(a.Left, time.Second), 5*time.Second)})
	default:
		h.refuse(w, r, id, refusal{problem: OutcomeIsUnknown})
	}
}

func (h *Handler) replay(w http.ResponseWriter, r *http.Request, id ID, res Result) {
	head := w.Header()
	head["Content-Type"] = nil // net/http guesses none
	put(head, res.Header)
	head[HeaderReplayed] = yes
	if len(res.Trailer) > 0 {
		declare(head, res.Trailer)
	}
	w.WriteHeader(res.Status)
	if len(res.Body) > 0 {
		w.Write(res.Body)
	}
	put(head, res.Trailer)
	h.tell(r.Context(), Notice{Signal: Replayed, ID: id, Bytes: len(res.Body)})
}
