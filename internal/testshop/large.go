package testshop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gabion-go/gabion/idempotency"
)

// Large is a body that is too large to be read before the claim.
var Large = strings.Repeat("0123456789abcde\n", 100<<10/16)

// A counted store counts how often it runs the Handler's work.
type counted struct {
	idempotency.TxStore
	works *atomic.Int64
}

func (s counted) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	return s.TxStore.Tx(ctx, c, func(ctx context.Context, r idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		s.works.Add(1)
		return run(ctx, r)
	})
}

// NotRepeated has a large body whose work meets a conflict at a statement or, if commit is not nil, at COMMIT. What
// was read of the body can't be read again, so it is for the client to repeat the request.
func (s *Shop) NotRepeated(statement, commit func(context.Context) error) {
	var works atomic.Int64
	s.H = s.Handler(counted{s.DB.Store, &works}, 0)
	for n, c := range []struct {
		name     string
		read     int // bytes, before the conflict
		conflict func(context.Context) error
		answer   int // of the run that met it
		status   int // of the first request
	}{
		{"after all was read, forgotten", len(Large), statement, 500, 503},
		{"after all was read, kept", len(Large), statement, 409, 503},
		{"after all was read, committed", len(Large), statement, 201, 503},
		{"after all was read, at COMMIT", len(Large), commit, 201, 503},
		{"after the beginning was read", 1, statement, 500, 503},
		{"before a success, for which the body is read", 0, statement, 201, 503},
		{"at COMMIT, for which the body is read", 0, commit, 201, 503},
		{"before it was read", 0, statement, 500, 201},
	} {
		if c.conflict == nil || commit == nil && c.answer == 201 { // what ends no transaction is the work's own business
			continue
		}
		s.Exec("DELETE FROM effects")
		s.Runs.Store(0)
		works.Store(0)
		s.Work = func(w http.ResponseWriter, r *http.Request) {
			if s.Runs.Load() > 1 {
				if body, err := io.ReadAll(r.Body); string(body) != Large {
					s.Errorf("%s: the next run read %d bytes, %v", c.name, len(body), err)
				}
				Status(201)(w, r)
				return
			}
			if _, err := io.ReadFull(r.Body, make([]byte, c.read)); err != nil {
				s.Errorf("%s: %v", c.name, err)
			}
			s.tell(r.Context(), c.conflict(r.Context()))
			w.Header().Set("Leak", "yes")
			w.WriteHeader(c.answer)
		}
		key := fmt.Sprint("large", n)
		first := s.Upload(key, Large)
		if first.Code != c.status || first.Header().Get("Leak") != "" || Replayed(first) {
			s.Errorf("%s: %d %v %s", c.name, first.Code, first.Header(), first.Body)
		}
		if c.status == 503 {
			if !strings.Contains(first.Body.String(), "store-unavailable") || first.Header().Get("Retry-After") == "" {
				s.Errorf("%s: %v %s", c.name, first.Header(), first.Body)
			}
			s.WantRuns(1)
			s.WantEffects(0)
		}
		if n := works.Load(); n != 2 { // the second is refused if the body was read
			s.Errorf("%s: the store ran the work %d times", c.name, n)
		}
		for retry, again := range []bool{c.status == 201, true} {
			if w := s.Upload(key, Large); w.Code != 201 || Replayed(w) != again {
				s.Errorf("%s: retry %d: %d %s", c.name, retry, w.Code, w.Body)
			}
		}
		s.WantRuns(2)
		s.WantEffects(1)
	}
}
