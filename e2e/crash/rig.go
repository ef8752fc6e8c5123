package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// A rig is a store, a witness and a client with its log. Its methods but verify are
// safe for concurrent use.
type rig struct {
	kind     *storeKind
	settings settings
	calm     bool // nothing will be broken
	seed     uint64
	clients  [2]*http.Client // one speaks HTTP/1.1, the other HTTP/2
	began    time.Time

	mu        sync.Mutex // guards all below
	histories map[string]*History
	rand      *rand.Rand
}

// newRig starts the store and ties the rig to the test. dir is for the store's
// files, where it has any, and for the witness; empty means a directory of memory,
// where there is one: a killed process loses nothing of what it wrote, so nothing
// would be gained by a disk.
func newRig(t testing.TB, kind *storeKind, dir string, lease time.Duration) *rig {
	t.Helper()
	if dir == "" {
		dir = inMemory(t)
	}
	seed := seedOf(t)
	return &rig{
		kind: kind, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), began: time.Now(),
		clients:   [2]*http.Client{newClient(t, (*http.Protocols).SetHTTP1), newClient(t, (*http.Protocols).SetUnencryptedHTTP2)},
		settings:  settings{Store: kind.name, Where: kind.start(t, dir), Witness: filepath.Join(dir, "witness"), Lease: lease},
		histories: map[string]*History{},
	}
}

func newClient(t testing.TB, speak func(*http.Protocols, bool)) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 5 * time.Second, Protocols: new(http.Protocols)}
	speak(transport.Protocols, true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// seedOf returns the test's seed and shows it when the test fails.
func seedOf(t testing.TB) uint64 {
	seed := rand.Uint64()
	if text := os.Getenv("GABION_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("GABION_SEED: %v", err)
		}
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("GABION_SEED=%d", seed)
		}
	})
	return seed
}

func inMemory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "gabion-crash-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// soak returns the size of a test: how often in an ordinary run, or in a long one.
func soak(ordinary, long int) int {
	if os.Getenv("GABION_SOAK") != "" {
		return long
	}
	return ordinary
}

func (r *rig) now() time.Duration { return time.Since(r.began) }

// draw returns a random duration up to most.
func (r *rig) draw(most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.rand.Int64N(int64(most) + 1))
}

// chance reports true so often of a hundred.
func (r *rig) chance(percent int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(100) < percent
}

// A request asks for a charge.
type request struct {
	scope, key string
	guarantee  idempotency.Guarantee
	amount     int
	order      order
}

const answerLimit = 30 * time.Second

// charge sends a request and logs its answer.
func (r *rig) charge(ctx context.Context, to *process, q request) Answer {
	a := Answer{Amount: q.amount, Call: r.now()}
	a.Err = r.send(ctx, to, q, &a)
	a.Back = r.now()
	r.note(q, func(h *History) { h.Answers = append(h.Answers, a) })
	return a
}

func (r *rig) send(ctx context.Context, to *process, q request, a *Answer) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url+"/"+q.guarantee.String(), strings.NewReader(strconv.Itoa(q.amount)))
	if err != nil {
		return err
	}
	req.GetBody = nil // else net/http sends it again by itself, and the log has one where there were two
	req.Header.Set("Idempotency-Key", q.key)
	req.Header.Set(headerScope, q.scope)
	if q.order != (order{}) {
		req.Header.Set(headerDieAt, string(q.order.dieAt))
		req.Header.Set(headerCrowd, strconv.Itoa(q.order.crowd))
		req.Header.Set(headerWork, q.order.work.String())
	}
	res, err := r.clients[r.draw(1)].Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	a.Status, a.Body = res.StatusCode, string(body)
	a.Replayed = res.Header.Get("Idempotent-Replayed") == "true"
	a.Unrecorded = res.Header.Get("Idempotency-Status") != ""
	a.Header = fmt.Sprintf("Content-Type: %s\nLocation: %s\n", res.Header.Get("Content-Type"), res.Header.Get("Location"))
	if a.ok() {
		return json.Unmarshal(body, &a.Charge)
	}
	var problem struct{ Type string }
	if json.Unmarshal(body, &problem) == nil { // else it is the handler's own text
		a.Problem = strings.TrimPrefix(problem.Type, "urn:gabion:idempotency:")
	}
	return nil
}

// note changes a key's history.
func (r *rig) note(q request, change func(*History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := q.scope + "/" + q.key
	h := r.histories[name]
	if h == nil {
		h = &History{Scope: q.scope, Key: q.key, Guarantee: q.guarantee, Lease: r.settings.Lease, Calm: r.calm}
		r.histories[name] = h
	}
	change(h)
}

// lost notes that the holder of the key is gone.
func (r *rig) lost(q request) {
	now := r.now()
	r.note(q, func(h *History) { h.Lost = now })
}

// settleLimit is when a key that is still in progress counts as stuck: far more than
// I6 allows, which is checked for every answer, and than a store takes to answer
// where many rigs share a processor.
const settleLimit = time.Minute

// settle asks, again and again, until the key is not in progress. Should that be a
// run, its work takes so long.
func (r *rig) settle(to *process, q request, work time.Duration) Answer {
	q.order = order{work: work}
	for limit := r.now() + settleLimit; ; time.Sleep(20 * time.Millisecond) {
		a := r.charge(context.Background(), to, q)
		if !a.undecided() || r.now() > limit {
			return a
		}
	}
}

// read gives each history the effects of its key.
func (r *rig) read(ctx context.Context) error {
	all, err := readWitness(r.settings.Witness)
	if err != nil {
		return err
	}
	if r.kind.tx {
		s, err := r.kind.open(ctx, r.settings.Where, func() {})
		if err != nil {
			return fmt.Errorf("the store does not open again: %w", err)
		}
		defer s.close()
		rows, err := readEffects(ctx, s.db)
		if err != nil {
			return err
		}
		all = append(all, rows...)
	}
	for _, h := range r.histories {
		h.Effects = nil
	}
	for _, e := range all {
		h := r.histories[e.Name]
		if h == nil {
			return fmt.Errorf("an effect of an unused key: %v", e)
		}
		h.Effects = append(h.Effects, e)
	}
	return nil
}

// shownBroken bounds how many broken histories a failure prints.
const shownBroken = 5

// verify checks all histories. No request may be under way.
func (r *rig) verify(t testing.TB) {
	t.Helper()
	if err := r.read(context.Background()); err != nil {
		t.Error(err)
		return
	}
	shown := 0
	for _, h := range r.histories {
		broken := h.Check()
		if len(broken) == 0 {
			continue
		}
		if shown++; shown <= shownBroken {
			t.Errorf("%v\n%v", broken, h)
		}
	}
	if shown > 0 {
		t.Errorf("%s: %d of %d keys are broken", r.kind.name, shown, len(r.histories))
	}
}

// crowd runs f n times at once and returns when all have.
func crowd(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
