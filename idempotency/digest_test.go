package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// Bounds of the tests: what is read before the claim, and what is streamed.
const (
	readWhole = 1 << 10
	streamed  = 256 << 10
)

var (
	large   = strings.Repeat("0123456789abcdef", 40<<10/16)
	altered = large[:7] + "X" + large[8:]
)

func sum256(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

func sum512(body string) string {
	sum := sha512.Sum512([]byte(body))
	return "sha-512=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// An uploads is a Handler of large bodies behind a real server.
type uploads struct {
	*rig
	shelf *txShelf // under Tx
}

func newUploads(t *testing.T, protocol string, config Config, work http.HandlerFunc) *uploads {
	t.Helper()
	u := &uploads{rig: &rig{T: t, store: &faulty{Store: NewMemoryStore(0, 0)}, work: work}}
	config.MaxRequestBody, config.MaxStreamedBody, config.Observer = readWhole, streamed, &u.seen
	var store Store = u.store
	if config.Guarantee == GuaranteeTx {
		u.shelf = &txShelf{Store: u.store, records: map[ID]Record{}}
		store = u.shelf
	}
	var err error
	u.h, err = New(tenant, store, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.runs.Add(1)
		u.work(w, r)
	}), config)
	if err != nil {
		t.Fatal(err)
	}
	u.over(protocol)
	return u
}

// put makes a request; further strings are pairs of header names and values. It
// returns status 0 when no answer came.
func (u *uploads) put(chunked bool, body string, header ...string) *httptest.ResponseRecorder {
	u.Helper()
	req := post("k", body, header...)
	if chunked {
		req.Body, req.ContentLength = io.NopCloser(unknownLength(body)), -1
	}
	return u.send(req)
}

func (u *uploads) state() State {
	u.Helper()
	if u.shelf != nil {
		u.shelf.mu.Lock()
		defer u.shelf.mu.Unlock()
		return u.shelf.records[IDOf("t/", "k")].State
	}
	return u.record("k").State
}

// stores is work that keeps what it reads, and says so. What fails goes to failed.
func stores(failed http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			failed(w, r)
			return
		}
		w.WriteHeader(201)
		fmt.Fprint(w, "stored ", len(body))
	}
}

func declares(declare func(context.Context), then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		declare(r.Context())
		then(w, r)
	}
}

// looks is work that reads no more than the beginning.
func looks(w http.ResponseWriter, r *http.Request) {
	io.ReadFull(r.Body, make([]byte, 100))
	w.WriteHeader(201)
}

// What becomes of a key whose body is streamed, and what an honest retry gets.
func TestStreamedBodies(t *testing.T) { overWires(t, streamedBodies) }

func streamedBodies(t *testing.T, wire string) {
	careless := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Location", "/1")
		answer(201, "stored")(w, r)
	}
	panics := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	reads := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			then(w, r)
		}
	}
	const unknown, mismatch = string(problemUnknown), string(problemDigestMismatch)
	for _, c := range []struct {
		name      string
		guarantee Guarantee
		body      string // of the first request; that of the second is what the digest says
		work      http.HandlerFunc
		status    int    // of the first answer; 0 is a broken connection
		says      string // its body, in part
		state     State
		runs      int64 // after the second request
		second    int
	}{
		{"whole, hold", GuaranteeHold, large, stores(nil), 201, "stored 40960", StateDone, 1, 201},
		{"whole, reexecute", GuaranteeReexecute, large, stores(nil), 201, "stored 40960", StateDone, 1, 201},
		{"whole, tx", GuaranteeTx, large, stores(nil), 201, "stored 40960", StateDone, 1, 201},

		{"altered, the handler refuses, hold: it may have had an effect", GuaranteeHold, altered, stores(answer(400, "no")), 400, "no", StateDone, 1, 400},
		{"altered, the handler refuses, reexecute", GuaranteeReexecute, altered, stores(answer(400, "no")), 400, "no", StateRetryable, 2, 201},
		{"altered, the handler refuses, tx", GuaranteeTx, altered, stores(answer(400, "no")), 400, "no", StateAbsent, 2, 201},
		{"altered, the handler refuses without effect, hold", GuaranteeHold, altered, stores(declares(NoEffect, answer(400, "no"))), 400, "no", StateRetryable, 2, 201},
		{"altered, the handler fails, hold", GuaranteeHold, altered, stores(answer(500, "no")), 500, "no", StateDone, 1, 500},
		{"altered, the handler would commit its refusal, tx", GuaranteeTx, altered, stores(declares(CommitError, answer(400, "no"))), 400, "no", StateAbsent, 2, 201},

		{"altered, the handler succeeds all the same, hold", GuaranteeHold, altered, careless, 409, unknown, StateUnknown, 1, 409},
		{"altered, the handler succeeds all the same, reexecute", GuaranteeReexecute, altered, careless, 400, mismatch, StateRetryable, 2, 201},
		{"altered, the handler succeeds all the same, tx", GuaranteeTx, altered, careless, 400, mismatch, StateAbsent, 2, 201},
		{"altered, the handler succeeds without effect, hold", GuaranteeHold, altered, declares(NoEffect, careless), 400, mismatch, StateRetryable, 2, 201},

		{"altered, the handler panics, hold", GuaranteeHold, altered, stores(panics), 0, "", StateUnknown, 1, 409},
		{"altered, the handler panics, reexecute", GuaranteeReexecute, altered, stores(panics), 0, "", StateRetryable, 2, 201},
		{"altered, the handler panics, tx", GuaranteeTx, altered, stores(panics), 0, "", StateAbsent, 2, 201},

		{"a success that read the beginning, hold: the rest is read for it", GuaranteeHold, large, looks, 201, "", StateDone, 1, 201},
		{"a success that read the beginning, reexecute", GuaranteeReexecute, large, looks, 201, "", StateDone, 1, 201},
		{"a success that read the beginning, tx", GuaranteeTx, large, looks, 201, "", StateDone, 1, 201},
		{"a success that read nothing", GuaranteeHold, large, answer(204, ""), 204, "", StateDone, 1, 204},
		{"altered, a success that read the beginning, hold", GuaranteeHold, altered, looks, 409, unknown, StateUnknown, 1, 409},
		{"altered, a success that read the beginning, reexecute", GuaranteeReexecute, altered, looks, 400, mismatch, StateRetryable, 2, 201},
		{"altered, a success that read the beginning, tx", GuaranteeTx, altered, looks, 400, mismatch, StateAbsent, 2, 201},

		{"a refusal that read nothing, hold", GuaranteeHold, large, answer(403, "no"), 403, "no", StateDone, 1, 403},
		{"a refusal that read nothing, reexecute", GuaranteeReexecute, large, answer(403, "no"), 403, "no", StateRetryable, 2, 403},
		{"a refusal that read nothing, tx", GuaranteeTx, large, answer(403, "no"), 403, "no", StateAbsent, 2, 403},
		{"a refusal that read nothing and is to be committed, tx", GuaranteeTx, large, declares(CommitError, answer(403, "no")), 403, "no", StateDone, 1, 403},
		{"a refusal of the whole, reexecute", GuaranteeReexecute, large, reads(answer(422, "no")), 422, "no", StateDone, 1, 422},
		{"a refusal of the whole, tx", GuaranteeTx, large, reads(answer(422, "no")), 422, "no", StateDone, 1, 422},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chunked %v", c.name, chunked), func(t *testing.T) {
				u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee}}, c.work)
				first := u.put(chunked, c.body, headerDigest, sum256(large))
				if first.Code != c.status || !strings.Contains(first.Body.String(), c.says) {
					t.Errorf("first %d %q", first.Code, first.Body)
				}
				if h := first.Header(); first.Code != 0 && (h.Get(headerKey) != "k" || h.Get("Location") != "") {
					t.Errorf("first: %v", h)
				}
				if got := u.state(); got != c.state {
					t.Errorf("the record is %v, want %v", got, c.state)
				}
				second := u.put(!chunked, large, headerDigest, sum256(large))
				if second.Code != c.second {
					t.Errorf("second %d %q", second.Code, second.Body)
				}
				if replayed := second.Header().Get(headerReplayed) == "true"; replayed != (c.state == StateDone) {
					t.Errorf("replayed: %v", replayed)
				}
				u.wantRuns(c.runs)
				read := c.body == altered && c.status != 0
				if got := u.seen.count(eventBodyFailed); read != (got == 1) {
					t.Errorf("told %d times of the body", got)
				}
			})
		}
	}
}

// What is refused before the claim. Nothing is stored.
func TestDigestSurface(t *testing.T) { overWires(t, digestSurface) }

func digestSurface(t *testing.T, wire string) {
	for _, c := range []struct {
		name    string
		body    string
		digest  []string
		status  int
		problem Problem
	}{
		{"small, of another body", "x", []string{sum256("y")}, 400, problemDigestMismatch},
		{"small, one of two is of another body", "x", []string{sum256("x") + ", " + sum512("y")}, 400, problemDigestMismatch},
		{"empty, of another body", "", []string{sum256("y")}, 400, problemDigestMismatch},
		{"small, malformed", "x", []string{"sha-256=abc"}, 400, problemDigestMalformed},
		{"large, malformed", large, []string{"sha-256=abc"}, 400, problemDigestMalformed},
		{"large, too short", large, []string{"sha-256=:YWJj:"}, 400, problemDigestMalformed},
		{"large, malformed beside a good one", large, []string{sum256(large) + ",md5=1"}, 400, problemDigestMalformed},
		{"large, without a digest", large, nil, 413, problemBodyTooLarge},
		{"large, with an empty header", large, []string{""}, 413, problemBodyTooLarge},
		{"large, with unknown algorithms only", large, []string{"md5=:YWJj:, crc32c=:YWJj:"}, 413, problemBodyTooLarge},
		{"over the bound of streams", strings.Repeat("x", streamed+1), []string{sum256("")}, 413, problemBodyTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUploads(t, wire, Config{}, answer(200, "done"))
			var header []string
			for _, line := range c.digest {
				header = append(header, headerDigest, line)
			}
			u.wantProblem(u.put(false, c.body, header...), c.status, c.problem)
			u.wantRuns(0)
			if n := u.store.begun.Load(); n != 0 {
				t.Errorf("the store was called %d times", n)
			}
		})
	}
}

func TestDigestIsNotLookedAtUnlessStreamed(t *testing.T) {
	r := newRig(t, Config{MaxRequestBody: readWhole}, answer(200, "done"))
	if w := r.send(post("k", "x", headerDigest, "nonsense")); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r.wantProblem(r.send(post("l", large, headerDigest, sum256(large))), 413, problemBodyTooLarge)
	r.wantRuns(1)
}

// Whether a retry is the same request.
func TestDigestAndFingerprint(t *testing.T) { overWires(t, digestAndFingerprint) }

func digestAndFingerprint(t *testing.T, wire string) {
	for _, c := range []struct {
		name          string
		first, second []string // body, digest
		status        int      // of the second; 201 is a replay
	}{
		{"small, with and then without", []string{"x", sum256("x")}, []string{"x"}, 201},
		{"small, without and then with", []string{"x"}, []string{"x", sum256("x")}, 201},
		{"small, other algorithms", []string{"x", sum256("x")}, []string{"x", sum512("x")}, 201},
		{"large, the same", []string{large, sum256(large)}, []string{large, sum256(large)}, 201},
		{"large, one more algorithm", []string{large, sum256(large)}, []string{large, sum512(large) + ", " + sum256(large)}, 201},
		{"large, another algorithm", []string{large, sum256(large)}, []string{large, sum512(large)}, 422},
		{"large, another body", []string{large, sum256(large)}, []string{altered, sum256(altered)}, 422},
		{"large, another body, sha-512", []string{large, sum512(large)}, []string{altered, sum512(altered)}, 422},
		{"large, then without", []string{large, sum256(large)}, []string{large}, 413},
		{"large, then small", []string{large, sum256(large)}, []string{"x", sum256("x")}, 422},
		{"large, another body on the word of the same digest: trusted at claim", []string{large, sum256(large)}, []string{altered, sum256(large)}, 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUploads(t, wire, Config{}, stores(answer(500, "")))
			send := func(r []string) *httptest.ResponseRecorder {
				if len(r) == 1 {
					return u.put(false, r[0])
				}
				return u.put(false, r[0], headerDigest, r[1])
			}
			first, second := send(c.first), send(c.second)
			if first.Code != 201 || second.Code != c.status {
				t.Errorf("%d %s, then %d %s", first.Code, first.Body, second.Code, second.Body)
			}
			if c.status == 201 {
				u.wantReplay(first, second)
			}
			u.wantRuns(1)
		})
	}
}

// A body that is made of a digest's bytes is not taken for the digest of another.
func TestFingerprintsOfDigestsAndBodiesNeverMeet(t *testing.T) {
	f := fingerprinter{secret: []byte("s")}
	r := post("k", "")
	seen := map[[32]byte]string{}
	for _, body := range []string{"", "x", large} {
		d, err := parseDigest([]string{sum256(body)})
		e, err2 := parseDigest([]string{sum512(body)})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for name, sum := range map[string][32]byte{
			"body":        f.of(r, []byte(body)),
			"sha-256":     f.ofDigest(r, d),
			"sha-512":     f.ofDigest(r, e),
			"like 256":    f.of(r, d.print()),
			"like 512":    f.of(r, e.print()),
			"bare 256":    f.of(r, d.sha256),
			"with a byte": f.of(r, append([]byte{digestVersion}, d.print()...)),
		} {
			name += fmt.Sprint(len(body))
			if other, twice := seen[sum]; twice {
				t.Errorf("%s is %s", name, other)
			}
			seen[sum] = name
		}
	}
}

// While the first runs: another digest is a mismatch at once, the same is in progress,
// and one that waits gets the answer. None has to send its body.
func TestDuplicatesOfAStreamedBody(t *testing.T) { overWires(t, duplicatesOfAStreamedBody) }

func duplicatesOfAStreamedBody(t *testing.T, wire string) {
	reading, proceed := make(chan struct{}), make(chan struct{})
	u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Wait: time.Minute, WaitersPerKey: 1}}, func(w http.ResponseWriter, r *http.Request) {
		close(reading)
		<-proceed
		stores(nil)(w, r)
	})
	told := make(chan struct{}, 1000)
	u.h.store = tellsBegin{u.store, told}
	var first, waiter *httptest.ResponseRecorder
	ended := make(chan struct{}, 2)
	go func() { first = u.put(false, large, headerDigest, sum256(large)); ended <- struct{}{} }()
	<-reading
	go func() { waiter = u.headOnly(sum256(large)); ended <- struct{}{} }()
	for range 3 { // the first's, the waiter's before and after it entered
		<-told
	}
	u.wantProblem(u.headOnly(sum256(altered)), 422, problemMismatch)
	u.wantProblem(u.headOnly(sum256(large)), 409, problemInProgress) // no room for a second waiter
	close(proceed)
	<-ended
	<-ended
	u.wantReplay(first, waiter)
	u.wantReplay(first, u.headOnly(sum256(large)))
	u.wantRuns(1)
}

// A tellsBegin tells of claims that were decided.
type tellsBegin struct {
	Store
	told chan<- struct{}
}

func (s tellsBegin) Begin(ctx context.Context, c Claim) (Answer, error) {
	defer func() { s.told <- struct{}{} }()
	return s.Store.Begin(ctx, c)
}

// headOnly announces a body, sends none, and returns the answer. Of less than 256 KiB
// net/http would read the rest before it answers, over HTTP/1.1.
func (u *uploads) headOnly(digest string) *httptest.ResponseRecorder {
	u.Helper()
	body, sends := io.Pipe()
	defer sends.Close()
	return u.send(u.announced(body, streamed, digest))
}

// announced is a request for a body that comes as it is sent. Its Close ends a pending Read.
func (u *uploads) announced(body io.ReadCloser, length int64, digest string) *http.Request {
	r := post("k", "", headerDigest, digest)
	r.Body, r.ContentLength = body, length
	return r
}

// The client is asked for its body when the handler reads it, and not for a replay.
func TestExpectContinue(t *testing.T) { overWires(t, expectContinue) }

func expectContinue(t *testing.T, wire string) {
	u := newUploads(t, wire, Config{}, stores(nil))
	u.wire.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	for n := range 2 {
		var asked, read bool
		body := readerFunc(func(p []byte) (int, error) { read = true; return 0, io.EOF })
		r := u.announced(io.NopCloser(io.MultiReader(strings.NewReader(large), body)), int64(len(large)), sum256(large))
		r.Header.Set("Expect", "100-continue")
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { asked = true }})
		if w := u.wire.do(u.wire.request(r).WithContext(ctx)); w.Code != 201 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if first := n == 0; asked != first || read != first {
			t.Errorf("request %d: asked for the body %v, which was read %v", n, asked, read)
		}
	}
	u.wantRuns(1)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A body that does not come whole is not taken for whole: the connection ends, or the
// stream is reset.
func TestStreamsThatBreakOff(t *testing.T) { overWires(t, streamsThatBreakOff) }

func streamsThatBreakOff(t *testing.T, wire string) {
	for _, c := range []struct {
		guarantee Guarantee
		work      func(errs chan<- error) http.HandlerFunc
		state     State
	}{
		{GuaranteeHold, readsThen(201), StateUnknown},
		{GuaranteeHold, readsThen(400), StateDone},
		{GuaranteeReexecute, readsThen(201), StateRetryable},
		{GuaranteeReexecute, readsThen(400), StateRetryable},
		{GuaranteeTx, readsThen(201), StateAbsent},
		{GuaranteeTx, readsThen(400), StateAbsent},
	} {
		errs := make(chan error, 2)
		u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee}}, c.work(errs))
		part := io.MultiReader(strings.NewReader(large[:30<<10]), iotest.ErrReader(errors.New("broken off")))
		if w := u.send(u.announced(io.NopCloser(part), int64(len(large)), sum256(large))); w.Code != 0 {
			t.Errorf("%v: an answer %d", c.guarantee, w.Code)
		}
		if err := <-errs; err == nil || err == io.EOF || errors.Is(err, ErrDigest) {
			t.Errorf("the handler read %v", err)
		}
		u.wire.Close()
		if got := u.state(); got != c.state {
			t.Errorf("%v: the record is %v, want %v", c.guarantee, got, c.state)
		}
	}
}

// readsThen is work that reads to the end, tells what it met there, and answers.
func readsThen(status int) func(chan<- error) http.HandlerFunc {
	return func(errs chan<- error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			errs <- err
			w.WriteHeader(status)
		}
	}
}

// A body of unknown length that is larger than may be streamed.
func TestStreamOverTheBound(t *testing.T) { overWires(t, streamOverTheBound) }

func streamOverTheBound(t *testing.T, wire string) {
	for _, size := range []int{streamed, streamed + 1} {
		body := strings.Repeat("x", size)
		errs := make(chan error, 1)
		u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, readsThen(201)(errs))
		w := u.put(true, body, headerDigest, sum256(body))
		var tooLarge *http.MaxBytesError
		err := <-errs
		if size == streamed {
			if w.Code != 201 || err != nil {
				t.Errorf("%d, %v", w.Code, err)
			}
			continue
		}
		if !errors.As(err, &tooLarge) || tooLarge.Limit != streamed {
			t.Errorf("the handler read %v", err)
		}
		u.wantProblem(w, 413, problemBodyTooLarge)
		if got := u.state(); got != StateRetryable {
			t.Errorf("the record is %v", got)
		}
	}
}

// A client that sends nothing more does not hold its key for ever.
func TestClientThatStalls(t *testing.T) { overWires(t, clientThatStalls) }

func clientThatStalls(t *testing.T, wire string) {
	for _, c := range []struct {
		guarantee Guarantee
		work      http.HandlerFunc
	}{{GuaranteeHold, stores(answer(500, ""))}, {GuaranteeReexecute, stores(answer(500, ""))}, {GuaranteeTx, stores(answer(500, ""))}, {GuaranteeHold, looks}} {
		u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee, MaxExecution: 50 * time.Millisecond}}, c.work)
		body, sends := io.Pipe()
		go io.WriteString(sends, large[:10<<10])
		if w := u.send(u.announced(body, int64(len(large)), sum256(large))); w.Code < 400 {
			t.Errorf("%v: %d %s", c.guarantee, w.Code, w.Body)
		}
		if got := u.state(); got == StateDone {
			t.Errorf("%v: the record is %v", c.guarantee, got)
		}
		sends.Close()
	}
}

// A slowDeadline is a connection whose read deadline takes its time to be set.
type slowDeadline struct {
	http.ResponseWriter
	set bool
}

func (d *slowDeadline) SetReadDeadline(time.Time) error {
	pass(time.Second)
	d.set = true
	return nil
}

// The deadline that ends a run's reading is never set on the connection's next request.
func TestDeadlineOfAStreamStaysInItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, over := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			w := new(slowDeadline)
			stop := new(streamedBody).endWith(ctx, w)
			if over {
				cancel()
				synctest.Wait()
			}
			stop()
			if w.set != over {
				t.Errorf("over %v: set %v when stop returns", over, w.set)
			}
			cancel()
			pass(time.Minute)
			if w.set != over {
				t.Errorf("over %v: set %v afterwards", over, w.set)
			}
		}
	})
}

// What a handler that has returned left behind reads nothing more.
func TestReadsAfterReturn(t *testing.T) { overWires(t, readsAfterReturn) }

func readsAfterReturn(t *testing.T, wire string) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeTx} {
		late := make(chan io.Reader, 1)
		u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: g}}, func(w http.ResponseWriter, r *http.Request) {
			io.ReadFull(r.Body, make([]byte, 10))
			late <- r.Body
			w.WriteHeader(201)
		})
		if w := u.put(false, large, headerDigest, sum256(large)); w.Code != 201 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if n, err := (<-late).Read(make([]byte, 10)); n != 0 || err != http.ErrBodyReadAfterClose {
			t.Errorf("%v: read %d, %v", g, n, err)
		}
	}
}

// Closing the body does not keep the rest of it from being verified.
func TestHandlerThatClosesTheBody(t *testing.T) { overWires(t, handlerThatClosesTheBody) }

func handlerThatClosesTheBody(t *testing.T, wire string) {
	for body, want := range map[string]int{large: 201, altered: 409} {
		u := newUploads(t, wire, Config{}, func(w http.ResponseWriter, r *http.Request) {
			r.Body.Close()
			if _, err := r.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
				t.Errorf("read %v", err)
			}
			w.WriteHeader(201)
		})
		if w := u.put(false, body, headerDigest, sum256(large)); w.Code != want {
			t.Errorf("%d %s, want %d", w.Code, w.Body, want)
		}
	}
}

// What a phase made of a body that was not verified is not kept for the next run.
func TestPhasesOfAStreamedBody(t *testing.T) { overWires(t, phasesOfAStreamedBody) }

func phasesOfAStreamedBody(t *testing.T, wire string) {
	var phases atomic.Int64
	u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, func(w http.ResponseWriter, r *http.Request) {
		var failed error
		Phase(r.Context(), "early", func(context.Context) ([]byte, error) { phases.Add(1); return nil, nil })
		Phase(r.Context(), "read", func(context.Context) ([]byte, error) {
			phases.Add(100)
			_, failed = io.Copy(io.Discard, r.Body)
			return nil, nil // as if all were well
		})
		if failed != nil || phases.Load() < 300 {
			w.WriteHeader(500)
		}
	})
	for _, c := range []struct {
		body   string
		status int
		phases int64
	}{{altered, 500, 101}, {large, 500, 202}, {large, 500, 203}, {large, 500, 204}} {
		if w := u.put(false, c.body, headerDigest, sum256(large)); w.Code != c.status || phases.Load() != c.phases {
			t.Errorf("%d %s, phases %d, want %d", w.Code, w.Body, phases.Load(), c.phases)
		}
	}
}

// An event stream that begins before the body was verified is not done.
func TestEarlyEndBeforeTheBodyIsVerified(t *testing.T) { overWires(t, earlyEndBeforeTheBodyIsVerified) }

func earlyEndBeforeTheBodyIsVerified(t *testing.T, wire string) {
	for _, c := range []struct {
		reads bool
		state State
	}{{false, StateUnknown}, {true, StateDone}} {
		u := newUploads(t, wire, Config{}, func(w http.ResponseWriter, r *http.Request) {
			if c.reads {
				io.Copy(io.Discard, r.Body)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
		})
		u.put(false, large, headerDigest, sum256(large))
		if got := u.state(); got != c.state {
			t.Errorf("the record is %v, want %v", got, c.state)
		}
	}
}

// A repeatingTx is a database that wants every transaction repeated once.
type repeatingTx struct {
	Store
	ran []error
}

func (s *repeatingTx) Tx(ctx context.Context, _ Claim, run Work) (Answer, error) {
	for range 2 {
		_, _, err := run(ctx, Record{Token: 1, Attempt: 1})
		s.ran = append(s.ran, err)
		if err != nil {
			return Answer{}, err
		}
	}
	return Answer{Decision: DecisionRun}, nil
}

// A transaction is not repeated on what is left of a body: the client repeats it.
func TestTransactionThatIsRepeated(t *testing.T) {
	for _, c := range []struct {
		name   string
		work   http.HandlerFunc
		second error
		status int
	}{
		{"after its body was read", stores(nil), errReread, 503},
		{"before its body was read", answer(500, "later"), nil, 500},
	} {
		store := &repeatingTx{Store: NewMemoryStore(0, 0)}
		h, err := New(Global, store, c.work, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeTx, Observer: &observed{}}, MaxRequestBody: readWhole, MaxStreamedBody: streamed})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{T: t, h: h}
		w := r.send(post("k", large, headerDigest, sum256(large)))
		if len(store.ran) != 2 || store.ran[0] != nil || store.ran[1] != c.second || w.Code != c.status {
			t.Errorf("%s: %v, %d %s", c.name, store.ran, w.Code, w.Body)
		}
		if c.status == 503 {
			r.wantProblem(w, 503, problemStoreUnavailable)
		}
	}
}

func TestFailOpenStillVerifies(t *testing.T) { overWires(t, failOpenStillVerifies) }

func failOpenStillVerifies(t *testing.T, wire string) {
	errs := make(chan error, 1)
	u := newUploads(t, wire, Config{FailOpen: true}, readsThen(400)(errs))
	u.store.fail(&u.store.begin, ErrFull)
	w := u.put(false, altered, headerDigest, sum256(large))
	if err := <-errs; !errors.Is(err, ErrDigest) || w.Code != 400 || w.Header().Get(headerStatus) != "not-recorded" {
		t.Errorf("%v, %d %v", err, w.Code, w.Header())
	}
}

// No event has the body, the digest or the key.
func TestEventsOfStreamsHoldNoSecrets(t *testing.T) {
	var log bytes.Buffer
	digest := sum256(large)
	h, err := New(Global, NewMemoryStore(0, 0), stores(answer(400, "")), Config{MaxRequestBody: readWhole, MaxStreamedBody: streamed, RunnerConfig: RunnerConfig{Observer: LogTo(newLog(&log))}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, h: h}
	for _, body := range []string{altered, "small"} {
		r.send(post("secret-key-"+fmt.Sprint(len(body)), body, headerDigest, digest))
	}
	r.send(post("secret-key", "small", headerDigest, "sha-256=garbled"))
	text := log.String()
	for _, secret := range []string{"secret-key", "0123456789abcdef", "small", "garbled", digest[9:20]} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the log:\n%s", secret, text)
		}
	}
	for _, told := range []string{string(eventBodyFailed), string(problemDigestMismatch), string(problemDigestMalformed)} {
		if !strings.Contains(text, told) {
			t.Errorf("%q is not in the log:\n%s", told, text)
		}
	}
}

func TestStreamBounds(t *testing.T) {
	for _, c := range []struct {
		config Config
		sound  bool
	}{
		{Config{MaxStreamedBody: 1 << 30}, true},
		{Config{MaxStreamedBody: 1 << 20}, true},
		{Config{MaxStreamedBody: 1<<20 - 1}, false},
		{Config{MaxRequestBody: 10, MaxStreamedBody: 10}, true},
		{Config{MaxStreamedBody: -1}, false},
	} {
		if err := c.config.Validate(); (err == nil) != c.sound {
			t.Errorf("%d, %d: %v", c.config.MaxRequestBody, c.config.MaxStreamedBody, err)
		}
	}
}

// However the bytes come: all of a good body and io.EOF, of another never the end.
func TestStreamedBodyReads(t *testing.T) {
	ways := map[string]func(io.Reader) io.Reader{
		"as it is":           func(r io.Reader) io.Reader { return r },
		"byte by byte":       iotest.OneByteReader,
		"by halves":          iotest.HalfReader,
		"end with the bytes": iotest.DataErrReader,
	}
	for _, size := range []int{1, streamTail - 1, streamTail, streamTail + 1, streamRoom + 5} {
		body := strings.Repeat("0123456789", size/10+1)[:size]
		for way, wrap := range ways {
			stream := func(body, digest string) *streamedBody {
				d, err := parseDigest([]string{digest})
				if err != nil {
					t.Fatal(err)
				}
				r := &http.Request{Body: io.NopCloser(wrap(strings.NewReader(body[1:])))}
				return newStreamed([]byte(body[:1]), r, d, 1<<20)
			}
			if err := iotest.TestReader(stream(body, sum256(body)), []byte(body)); err != nil {
				t.Errorf("%d %s: %v", size, way, err)
			}
			last := body[:size-1] + "X"
			for name, bad := range map[string]*streamedBody{
				"altered":       stream(last, sum256(body)),
				"one of two is": stream(body, sum256(body)+","+sum512(last)),
				"longer":        stream(body+"X", sum256(body)),
			} {
				got, err := io.ReadAll(bad)
				if !errors.Is(err, ErrDigest) || len(got) > max(0, size+1-streamTail) {
					t.Errorf("%d %s %s: %d bytes, %v", size, way, name, len(got), err)
				}
				if n, err := bad.Read(make([]byte, 1)); n != 0 || err != ErrDigest {
					t.Errorf("%d %s %s: then %d, %v", size, way, name, n, err)
				}
			}
			if n, err := io.ReadFull(stream(last, sum256(body)), make([]byte, size)); err == nil {
				t.Errorf("%d %s: all %d bytes of an altered body were read without an error", size, way, n)
			}
		}
	}
}

var memberPattern = regexp.MustCompile(`^[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*)(={0,2}):[ \t]*$`)

// modelDigest reads a Content-Digest one member at a time, by a pattern, and pads.
func modelDigest(text string) (sums map[string]string, ok bool) {
	sums = map[string]string{}
	if strings.Trim(text, " \t") == "" {
		return sums, true
	}
	for _, member := range strings.Split(text, ",") {
		m := memberPattern.FindStringSubmatch(member)
		if m == nil || len(m[2])%4 == 1 || m[3] != "" && (len(m[2])+len(m[3]))%4 != 0 {
			return nil, false
		}
		sum, err := base64.StdEncoding.DecodeString(m[2] + strings.Repeat("=", (4-len(m[2])%4)%4))
		if err != nil {
			return nil, false
		}
		if want := map[string]int{"sha-256": 32, "sha-512": 64}[m[1]]; want != 0 {
			if len(sum) != want {
				return nil, false
			}
			sums[m[1]] = string(sum)
		}
	}
	return sums, true
}

func FuzzContentDigest(f *testing.F) { // L
	good := sum256("x")
	for _, seed := range []string{
		"", " ", good, sum512("x"), good + " ,\t" + sum512("x"), good + ",", "," + good, good + ";q=1", strings.ToUpper(good),
		strings.TrimSuffix(good, "=:") + ":", "md5=:YWI=:", "md5=:YW I=:", "md5=::", "md5=:=:", "md5=:YWI:", "md5=:YQ==:", "md5=:YQ=:", "md5=:YR==:",
		"md5", "md5=1", "md5=?1", `md5="a"`, "sha-256=::", "*a.b_c-9=::", "9=::", "é=::", "a=:\n:", "a=:", "a=", "=::", good + "," + good,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDigest([]string{text})
		want, ok := modelDigest(text)
		if (err == nil) != ok || string(d.sha256) != want["sha-256"] || string(d.sha512) != want["sha-512"] {
			t.Fatalf("%q: %x %x (%v), want %x (%v)", text, d.sha256, d.sha512, err, want, ok)
		}
		if err != nil && d.known() {
			t.Fatalf("%q: %v and %x", text, err, d)
		}
		if before, after, found := strings.Cut(text, ","); found {
			if lines, err2 := parseDigest([]string{before, after}); (err2 == nil) != ok || string(lines.sha256) != string(d.sha256) {
				t.Fatalf("%q in two lines: %x, %v", text, lines, err2)
			}
		}
		var members []string
		for name, sum := range want {
			members = append(members, name+"=:"+base64.StdEncoding.EncodeToString([]byte(sum))+":")
		}
		if again, err := parseDigest(members); err != nil || string(again.sha256) != want["sha-256"] || string(again.sha512) != want["sha-512"] {
			t.Fatalf("%q written anew: %q, %v", text, members, err)
		}
	})
}
