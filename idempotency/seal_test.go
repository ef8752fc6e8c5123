package idempotency

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func sealKey(name string) SealKey {
	return SealKey{Name: name, Secret: bytes.Repeat([]byte(name+"-"), 32)[:32]}
}

func sealedWith(t *testing.T, store Store, names ...string) Store {
	t.Helper()
	var keys []SealKey
	for _, name := range names {
		keys = append(keys, sealKey(name))
	}
	sealer, err := NewSealer(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return Sealed(store, sealer)
}

// rigOn is a rig on another store than its own.
func rigOn(t *testing.T, store Store, config Config, work http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{T: t, work: work}
	config.Observer = &r.seen
	h, err := New(tenant, store, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.runs.Add(1)
		r.work(w, req)
	}), config)
	if err != nil {
		t.Fatal(err)
	}
	r.h = h
	return r
}

// What is stored of an answer is sealed, and replays are what they are without that.
func TestSealedAnswersAreReplayed(t *testing.T) {
	work := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/secret/7")
		w.Header().Set("Trailer", "Sum")
		w.WriteHeader(201)
		w.Write([]byte("the secret body"))
		w.Header().Set("Sum", "secret-sum")
	}
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute, GuaranteeTx} {
		plain := NewMemoryStore(0, 0)
		shelf := &txShelf{Store: plain, records: map[ID]Record{}}
		var inner Store = plain
		if g == GuaranteeTx {
			inner = shelf
		}
		r := rigOn(t, sealedWith(t, inner, "a"), Config{RunnerConfig: RunnerConfig{Guarantee: g}}, work)
		first := r.send(post("k", "x"))
		second := r.send(post("k", "x"))
		r.wantReplay(first, second)
		if first.Code != 201 || second.Header().Get("Location") != "/secret/7" || second.Result().Trailer.Get("Sum") != "secret-sum" {
			t.Errorf("%v: %d %v", g, second.Code, second.Result())
		}
		r.wantRuns(1)
		stored, _ := plain.Get(t.Context(), IDOf("t/", "k"))
		if g == GuaranteeTx {
			stored = shelf.records[IDOf("t/", "k")]
		}
		if raw, _ := stored.MarshalBinary(); stored.State != StateDone || bytes.Contains(raw, []byte("secret")) {
			t.Errorf("%v: stored %q", g, raw)
		}
	}
}

// A sealed answer that was moved, changed, or whose key is gone is unreadable: the work
// is not run again.
func TestSealedAnswersThatDoNotOpen(t *testing.T) {
	id, other := IDOf("t/", "k"), IDOf("t/", "other")
	for _, c := range []struct {
		name   string
		spoil  func(Record, Record) Record // of k's and other's
		keys   []string                    // that the reader has
		status int
	}{
		{"as it is", func(r, _ Record) Record { return r }, []string{"a"}, 200},
		{"the key was rotated", func(r, _ Record) Record { return r }, []string{"b", "a"}, 200},
		{"the key is gone", func(r, _ Record) Record { return r }, []string{"b"}, 503},
		{"another's answer", func(r, o Record) Record { r.Result = o.Result; return r }, []string{"a"}, 503},
		{"a bit is turned", func(r, _ Record) Record {
			r.Result.Body = bytes.Clone(r.Result.Body)
			r.Result.Body[len(r.Result.Body)-1] ^= 1
			return r
		}, []string{"a"}, 503},
		{"cut short", func(r, _ Record) Record { r.Result.Body = r.Result.Body[:3]; return r }, []string{"a"}, 503},
		{"another status", func(r, _ Record) Record { r.Result.Status = 201; return r }, []string{"a"}, 503},
		{"not sealed", func(r, _ Record) Record { r.Result = Result{Status: 200, Body: []byte("forged")}; return r }, []string{"a"}, 503},
		{"nothing", func(r, _ Record) Record { r.Result = Result{}; return r }, []string{"a"}, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain := newMemoryStore(0, 0)
			r := rigOn(t, sealedWith(t, plain, "a"), Config{}, answer(200, "done"))
			r.send(post("k", "x"))
			r.send(post("other", "x"))
			mine, _ := plain.Get(t.Context(), id)
			others, _ := plain.Get(t.Context(), other)
			*plain.shard(id).records[id] = c.spoil(mine, others)
			reader := rigOn(t, sealedWith(t, plain, c.keys...), Config{FailOpen: true}, answer(200, "again"))
			w := reader.send(post("k", "x"))
			if w.Code != c.status || c.status == 200 && w.Body.String() != "done" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if c.status == 503 {
				reader.wantProblem(w, 503, problemRecordUnreadable)
			}
			if _, err := sealedWith(t, plain, c.keys...).Get(t.Context(), id); (err != nil) != (c.status == 503) || err != nil && !errors.Is(err, ErrUnreadable) {
				t.Errorf("get: %v", err)
			}
			reader.wantRuns(0)
		})
	}
}

// A result may be brought to the store twice, though it is sealed anew each time.
func TestSealedResultsMayBeRepeated(t *testing.T) {
	for _, same := range []bool{true, false} {
		store := sealedWith(t, NewMemoryStore(0, 0), "a")
		a, err := store.Begin(t.Context(), Claim{ID: theWork, Owner: [16]byte{1}, Lease: 1e9, Retention: 1e12})
		if err != nil {
			t.Fatal(err)
		}
		ref, change := Ref{theWork, a.Record.Token}, Change{State: StateDone, Result: Result{Status: 200, Body: []byte("it")}}
		if err := store.Apply(t.Context(), ref, change); err != nil {
			t.Fatal(err)
		}
		if !same {
			change.Result.Body = []byte("something else")
		}
		if err := store.Apply(t.Context(), ref, change); (err == nil) != same || !same && !errors.Is(err, ErrLeaseLost) {
			t.Errorf("the same %v: %v", same, err)
		}
		ref.Token++
		if err := store.Apply(t.Context(), ref, change); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("another's token: %v", err)
		}
	}
}

// Recovery points are sealed, too, each for its phase; one that does not open runs
// nothing, and leaves the key as it was.
func TestSealedPoints(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func([]Point)
		runs  bool
	}{
		{"as they are", func([]Point) {}, true},
		{"changed for each other", func(p []Point) { p[0].Data, p[1].Data = p[1].Data, p[0].Data }, false},
		{"not sealed", func(p []Point) { p[0].Data = []byte("forged") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain := newMemoryStore(0, 0)
			var got []string
			r := rigOn(t, sealedWith(t, plain, "a"), Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, func(w http.ResponseWriter, req *http.Request) {
				for _, name := range []string{"one", "two"} {
					data, err := Phase(req.Context(), name, func(context.Context) ([]byte, error) { return []byte("secret of " + name), nil })
					if err != nil {
						t.Error(err)
					}
					got = append(got, string(data))
				}
				w.WriteHeader(500)
			})
			r.send(post("k", "x"))
			id := IDOf("t/", "k")
			stored := plain.shard(id).records[id]
			if raw, _ := stored.MarshalBinary(); len(stored.Points) != 2 || bytes.Contains(raw, []byte("secret")) {
				t.Errorf("stored %q", raw)
			}
			c.spoil(stored.Points)
			for range 2 {
				got = nil
				w := r.send(post("k", "x"))
				if want := "[secret of one secret of two]"; c.runs && fmt.Sprint(got) != want {
					t.Errorf("got %v", got)
				}
				if !c.runs {
					r.wantProblem(w, 503, problemRecordUnreadable)
				}
			}
		})
	}
}

func TestSealKeysThatAreNone(t *testing.T) {
	for name, keys := range map[string][]SealKey{
		"none":         {},
		"without name": {{Secret: make([]byte, 32)}},
		"too short":    {{Name: "a", Secret: make([]byte, 31)}},
		"named twice":  {sealKey("a"), sealKey("a")},
	} {
		if _, err := NewSealer(keys...); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), string(make([]byte, 31))) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is resolved through a sealed store is sealed as well.
func TestWhatIsResolvedIsSealed(t *testing.T) {
	plain := NewMemoryStore(0, 0)
	for name, store := range map[string]Store{"without transactions": plain, "with transactions": &txShelf{Store: plain}} {
		t.Run(name, func(t *testing.T) { resolvedSealed(t, sealedWith(t, store, "a"), plain, IDOf("t/", name)) })
	}
}

func resolvedSealed(t *testing.T, sealed, plain Store, id ID) {
	a := Admin{sealed}
	claim := Claim{ID: id, Owner: [16]byte{1}, Lease: 1, Retention: 1e12}
	if _, err := sealed.Begin(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	found := Change{State: StateDone, Result: Result{Status: 201, Header: []Field{{"Location", "/secret"}}, Body: []byte("the secret")}}
	if err := a.Resolve(t.Context(), id, found); err != nil {
		t.Fatal(err)
	}
	stored, _ := plain.Get(t.Context(), id)
	if raw, _ := stored.MarshalBinary(); stored.State != StateDone || !stored.Result.IsSealed() || bytes.Contains(raw, []byte("secret")) {
		t.Errorf("stored %q", raw)
	}
	claim.Owner[0]++
	if got, err := sealed.Begin(t.Context(), claim); err != nil || got.Decision != DecisionReplay || string(got.Record.Result.Body) != "the secret" || got.Record.Result.IsSealed() {
		t.Errorf("replayed %+v, %v", got, err)
	}
	seen := 0
	for e, err := range a.All(t.Context()) {
		if seen++; err != nil || e.ID == id && (e.Record.State != StateDone || e.Record.Result.Body != nil) {
			t.Errorf("listed %+v, %v", e, err)
		}
	}
	if err := a.Forget(t.Context(), id); err != nil || seen == 0 {
		t.Errorf("forget: %v, listed %d", err, seen)
	}
}

// A sealed store has transactions where its store has, and nowhere else.
func TestSealedStoresAreTransactionalAsTheirStoreIs(t *testing.T) {
	plain := NewMemoryStore(0, 0)
	if _, tx := sealedWith(t, plain, "a").(TxStore); tx {
		t.Error("a store without transactions has some")
	}
	if _, tx := sealedWith(t, &txShelf{Store: plain}, "a").(TxStore); !tx {
		t.Error("a store with transactions has none")
	}
}
