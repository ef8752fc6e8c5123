package idempotencytest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing/iotest"

	"github.com/gabion-go/gabion/idempotency"
)

// Bounds of the Handler: what it reads before the claim, and what it streams.
const (
	maxRead     = 1 << 10
	maxStreamed = 1 << 20
)

// A large body, more than is read ahead, and another one of its size.
var (
	large   = strings.Repeat("0123456789abcdef", 100<<10/16)
	altered = large[:len(large)-1] + "X"
)

// upload sends body with the digest of large.
func (b *txBench) upload(key string, body io.Reader) *httptest.ResponseRecorder {
	sum := sha256.Sum256([]byte(large))
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

// reads is work that reads its body, and answers with whole, or with failed if it can't.
func reads(whole, failed http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			failed(w, r)
			return
		}
		whole(w, r)
	}
}

func commitsError(w http.ResponseWriter, r *http.Request) {
	idempotency.CommitError(r.Context())
	status(400)(w, r)
}

func largeBodies(b *txBench) {
	brokenOff := func() io.Reader {
		return io.MultiReader(strings.NewReader(large[:len(large)/2]), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	for n, c := range []struct {
		name    string
		body    io.Reader // of the first request
		work    http.HandlerFunc
		status  int // of the first request
		effects int // after it
		again   int // status of an honest retry, which is kept
		runs    int // after that
	}{
		{"whole", strings.NewReader(large), reads(status(201), status(400)), 201, 1, 201, 1},
		{"whole and refused", strings.NewReader(large), reads(status(422), status(400)), 422, 0, 422, 1},
		{"altered", strings.NewReader(altered), reads(status(201), status(400)), 400, 0, 201, 2},
		{"altered, to be committed", strings.NewReader(altered), reads(status(201), commitsError), 400, 0, 201, 2},
		{"altered, and taken for whole", strings.NewReader(altered), reads(status(201), status(201)), 400, 0, 201, 2},
		{"altered, and not read", strings.NewReader(altered), status(201), 400, 0, 201, 2},
		{"broken off", brokenOff(), reads(status(201), status(400)), 400, 0, 201, 2},
		{"broken off, and taken for whole", brokenOff(), reads(status(201), status(201)), 400, 0, 201, 2},
	} {
		b.work, b.before = c.work, b.before+b.count()
		b.runs.Store(0)
		key := fmt.Sprint("large", n)
		first := b.upload(key, c.body)
		if first.Code != c.status {
			b.Errorf("%s: %d %s", c.name, first.Code, first.Body)
		}
		b.want(c.effects, 1)
		for retry := 1; retry <= 2; retry++ {
			w := b.upload(key, strings.NewReader(large))
			replayed := w.Header().Get("Idempotent-Replayed") == "true"
			if w.Code != c.again || w.Body.String() != "body" || replayed != (retry >= c.runs) {
				b.Errorf("%s: retry %d: %d %s, replayed: %v", c.name, retry, w.Code, w.Body, replayed)
			}
		}
		effects := 0
		if c.again == 201 {
			effects = 1
		}
		b.want(effects, c.runs)
	}
}

// largeDuplicates also sends altered ones: such a one rolls back if it is the one to run.
func largeDuplicates(b *txBench) {
	b.work = reads(status(201), status(400))
	for effects, second := range []string{large, altered} {
		var all sync.WaitGroup
		for n := range 16 {
			body := [...]string{large, second}[n%2]
			all.Go(func() {
				w := b.upload(fmt.Sprint("key", effects), strings.NewReader(body))
				if w.Body.String() != "body" || w.Code != 201 && (body == large || w.Code != 400) {
					b.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		if n := b.count(); n != effects+1 {
			b.Errorf("%d effects, want %d", n, effects+1)
		}
	}
}
