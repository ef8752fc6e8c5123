package flaky

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// CountsVersion is the version of the JSON of [Counts]. Fields are added, never changed.
const CountsVersion = 1

// Counts are what reached a server since its plan began, or began anew.
type Counts struct {
	Version       int              `json:"version"`
	Plan          string           `json:"plan"`
	Service       string           `json:"service"`
	Seed          uint64           `json:"seed"`
	Seconds       float64          `json:"seconds"`       // of the plan, so far
	Wrong         []string         `json:"wrong"`         // what is wrong now, for people
	Requests      int64            `json:"requests"`      // all but those for the counts
	WithKey       int64            `json:"with_key"`      // of these, those with an idempotency key
	Calls         int64            `json:"calls"`         // keys, and requests without one
	Amplification float64          `json:"amplification"` // requests ÷ calls
	Answers       map[string]int64 `json:"answers"`       // by status or code of gRPC, and refused, reset and cut_body
	Silent        int64            `json:"silent"`        // swallowed by a black hole
	Full          int64            `json:"full"`          // refused, since the queue was full
	Expired       int64            `json:"expired"`       // no work was done, since the caller's deadline had passed
	Executions    int64            `json:"executions"`    // pieces of work done
	Duplicates    int64            `json:"duplicates"`    // of these, done before under the same key
	Replays       int64            `json:"replays"`       // answered again without work, since the plan honours keys
	LostAnswers   int64            `json:"lost_answers"`  // work done whose answer did not arrive
	Gone          int64            `json:"gone"`          // callers that left before the reply
	Working       int              `json:"working"`       // requests being worked on now
	Queued        int              `json:"queued"`        // requests waiting now
	Forgotten     int64            `json:"forgotten"`     // keys that are no longer known, since there were too many
	Keys          []KeyCount       `json:"keys"`          // the keys with most executions, then with most requests; at most 20
}

// KeyCount is what happened under one idempotency key.
type KeyCount struct {
	Key        string `json:"key"`
	Requests   int64  `json:"requests"`
	Executions int64  `json:"executions"`
}

// tally is what a server counts besides the plan.
type tally struct {
	requests, withKey, gone int64
	answers                 map[string]int64
	keys                    map[string]*KeyCount
}

// The bounds of what is kept and shown of keys.
const (
	maxKeys   = 100_000
	shownKeys = 20
	maxKey    = 200 // bytes of a key that are kept
)

func newTally() tally { return tally{answers: map[string]int64{}, keys: map[string]*KeyCount{}} }

// asked counts a request, and returns where its key counts: nil without one.
func (t *tally) asked(key string) *KeyCount {
	t.requests++
	if key == "" {
		return nil
	}
	t.withKey++
	key = key[:min(len(key), maxKey)]
	k := t.keys[key]
	if k == nil {
		k = &KeyCount{Key: key}
		if len(t.keys) < maxKeys {
			t.keys[key] = k
		}
	}
	k.Requests++
	return k
}

// replied counts a reply.
func (t *tally) replied(k *KeyCount, r *sim.Reply) {
	if k != nil {
		k.Executions = max(k.Executions, int64(r.Effects))
	}
	switch {
	case r.Refused:
		t.answers["refused"]++
	case r.CutBody:
		t.answers["cut_body"]++
	case r.Status == 0:
		t.answers["reset"]++
	default:
		t.answers[outcome.Word(r.Status)]++
	}
}

// Counts returns what reached the server.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Duration(0)
	if !s.start.IsZero() {
		now = s.now()
		s.live.Advance(now)
		s.schedule()
	}
	work := s.live.Work()
	c := Counts{
		Version: CountsVersion, Plan: s.plan.Name(), Service: s.plan.Service(), Seed: s.seed, Seconds: now.Seconds(), Wrong: []string{},
		Requests: s.requests, WithKey: s.withKey, Calls: s.live.Calls(), Answers: map[string]int64{},
		Silent: work.Silent, Full: work.Full, Expired: work.Expired, Executions: work.Effects, Duplicates: work.Duplicates, Replays: work.Replays,
		LostAnswers: work.LostAnswers, Gone: s.gone, Forgotten: s.live.Forgotten(), Keys: []KeyCount{},
	}
	if c.Calls > 0 {
		c.Amplification = float64(c.Requests) / float64(c.Calls)
	}
	c.Working, c.Queued = s.live.Under()
	for name, n := range s.answers {
		c.Answers[name] = n
	}
	for _, f := range s.plan.Faults() {
		if !s.start.IsZero() && f.From <= now && now < f.To {
			c.Wrong = append(c.Wrong, f.Text)
		}
	}
	for _, k := range s.keys {
		c.Keys = append(c.Keys, *k)
	}
	slices.SortFunc(c.Keys, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Executions, a.Executions), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key))
	})
	c.Keys = c.Keys[:min(len(c.Keys), shownKeys)]
	return c
}

// serveCounts is the handler of CountsPath. A web page can't make a browser send a DELETE
// to another server that does not agree to it, and this one doesn't.
func (s *Server) serveCounts(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodDelete:
		if err := s.Restart(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, DELETE")
		http.Error(w, "GET the counts, or DELETE them to begin the plan anew", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(s.Counts()) // the client may have left
}
