package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/fleet"
)

func TestMemory(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if why := tried(t, func() fleet.Store { return NewMemory() }, c.run); why != "" {
					t.Error(why)
				}
			})
		})
	}
}

func TestMemoryInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("long: what lasts ends in real time; the same runs in virtual time")
	}
	m := NewMemory()
	Run(t, func(testing.TB) fleet.Store { return m })
}

// A fault is what is wrong with a store.
type fault struct {
	*Memory
	do func(m *Memory, b fleet.Batch) (fleet.Result, error)
}

// Do implements fleet.Store.
func (f fault) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Result{}, err
	}
	return f.do(f.Memory, b)
}

func do(m *Memory, b fleet.Batch) (fleet.Result, error) { return m.Do(context.Background(), b) }

// only reads what a batch reads.
func only(b fleet.Batch) fleet.Batch { return fleet.Batch{Get: b.Get, List: b.List} }

// without is a result without the keys that a batch does not get by name and that are not meant.
func without(r fleet.Result, meant func(key string) bool) fleet.Result {
	for key := range r.Items {
		if !meant(key) {
			delete(r.Items, key)
		}
	}
	return r
}

// Each fault is found by the case that is there for it.
func TestFaultyStoresAreFound(t *testing.T) {
	for what, c := range map[string]struct {
		finds func(*bench)
		do    func(m *Memory, b fleet.Batch) (fleet.Result, error)
	}{
		"nothing is compared": {swaps, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			if b.Swap != nil {
				b.Puts, b.Swap = append([]fleet.Put{*b.Swap}, b.Puts...), nil
			}
			return do(m, b)
		}},
		"a new key is not compared": {swaps, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			if b.Swap != nil && b.Swap.Version == 0 {
				b.Puts, b.Swap = append([]fleet.Put{*b.Swap}, b.Puts...), nil
			}
			return do(m, b)
		}},
		"it compares, and then puts": {raceOfSwaps, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			if b.Swap == nil {
				return do(m, b)
			}
			r, err := do(m, fleet.Batch{Get: []string{b.Swap.Key}})
			time.Sleep(time.Microsecond)
			if r.Items[b.Swap.Key].Version == b.Swap.Version {
				b.Puts, b.Swap = append([]fleet.Put{*b.Swap}, b.Puts...), nil
			}
			if err != nil {
				return r, err
			}
			return do(m, b)
		}},
		"it puts the rest although the swap failed": {lostSwap, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			if !r.Swapped {
				_, err = do(m, fleet.Batch{Puts: b.Puts})
			}
			return r, err
		}},
		"it reads nothing where the swap failed": {lostSwap, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			if !r.Swapped {
				r.Items = nil
			}
			return r, err
		}},
		"it reads before it puts": {putAndGet, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, only(b))
			if put, failed := do(m, fleet.Batch{Swap: b.Swap, Puts: b.Puts}); failed != nil || !put.Swapped {
				r.Swapped, err = false, failed
			}
			return r, err
		}},
		"it lists before it puts": {lists, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			list := b.List
			before, err := do(m, fleet.Batch{List: list})
			b.List = ""
			r, failed := do(m, b)
			for key, item := range before.Items {
				r.Items[key] = item
			}
			return r, cmpErr(err, failed)
		}},
		"a version is that of the value": {versions, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			for key, item := range r.Items {
				item.Version = uint64(len(item.Value) + 1)
				r.Items[key] = item
			}
			return r, err
		}},
		"nil is an empty value": {deletes, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			for i := range b.Puts {
				b.Puts[i].Value = append([]byte{}, b.Puts[i].Value...)
			}
			return do(m, b)
		}},
		"an empty value is nil": {deletes, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			for i := range b.Puts {
				if len(b.Puts[i].Value) == 0 {
					b.Puts[i].Value = nil
				}
			}
			return do(m, b)
		}},
		"bytes are text": {putAndGet, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			for i := range b.Puts {
				b.Puts[i].Value = bytes.ToValidUTF8(b.Puts[i].Value, []byte("?"))
			}
			return do(m, b)
		}},
		"keys are in lower case": {oddKeys, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			return without(r, func(key string) bool { return key == strings.ToLower(key) }), err
		}},
		"a prefix ends at a slash": {lists, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			return without(r, func(key string) bool {
				return b.List == "" || strings.HasPrefix(key, strings.TrimSuffix(b.List, "/")+"/")
			}), err
		}},
		"a list ends after a hundred": {manyKeys, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			left := 100
			return without(r, func(string) bool { left--; return left >= 0 }), err
		}},
		"a value ends after 64 KB": {largeValues, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			for key, item := range r.Items {
				item.Value = item.Value[:min(len(item.Value), 64<<10)]
				r.Items[key] = item
			}
			return r, err
		}},
		"what lasts ends too early": {lasting, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			for i := range b.Puts {
				b.Puts[i].Lasts /= 2
			}
			return do(m, b)
		}},
		"what is swapped in ends too early": {lasting, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			if b.Swap != nil {
				b.Swap.Lasts /= 2
			}
			return do(m, b)
		}},
		"all of it ends": {lastsForEver, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			for i := range b.Puts {
				b.Puts[i].Lasts = short
			}
			return do(m, b)
		}},
		"its clock stands still": {timeGoesOn, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			r.Now = time.Unix(1, 0)
			return r, err
		}},
		"its clock counts other seconds": {timeGoesOn, func(m *Memory, b fleet.Batch) (fleet.Result, error) {
			r, err := do(m, b)
			r.Now = time.Unix(0, r.Now.UnixNano()/1000)
			return r, err
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory()
				if why := tried(t, func() fleet.Store { return fault{m, c.do} }, c.finds); why == "" {
					t.Error("it was not found")
				} else {
					t.Log(why)
				}
			})
		})
	}
	for what, c := range map[string]struct {
		finds func(*bench)
		open  func() fleet.Store
	}{
		"each process has data of its own":    {twoHandles, func() fleet.Store { return NewMemory() }},
		"a context that is over is no matter": {contextIsOver, func() fleet.Store { return deaf{NewMemory()} }},
	} {
		t.Run(what, func(t *testing.T) {
			b := &judged{TB: t}
			if why := b.try(c.finds, func(testing.TB) fleet.Store { return c.open() }); why == "" {
				t.Error("it was not found")
			}
		})
	}
}

type deaf struct{ m *Memory }

// Do implements fleet.Store.
func (d deaf) Do(_ context.Context, b fleet.Batch) (fleet.Result, error) { return do(d.m, b) }

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// tried runs a case on one store, and returns why it failed.
func tried(t *testing.T, open func() fleet.Store, run func(*bench)) string {
	s := open()
	return (&judged{TB: t}).try(run, func(testing.TB) fleet.Store { return s })
}

// judged notes failures, and the test itself goes on.
type judged struct {
	testing.TB
	mu  sync.Mutex
	why []string
}

func (j *judged) try(run func(*bench), open func(testing.TB) fleet.Store) string {
	done := make(chan struct{})
	go func() { // Fatalf ends it
		defer close(done)
		run(&bench{TB: j, open: open, store: open(j), name: "fleet"})
	}()
	<-done
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.why, "\n")
}

func (j *judged) add(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.why = append(j.why, text); len(j.why) > 5 {
		j.why = j.why[:5]
	}
}

func (j *judged) Failed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.why) > 0
}

func (j *judged) Error(args ...any)                 { j.add(fmt.Sprint(args...)) }
func (j *judged) Errorf(format string, args ...any) { j.add(fmt.Sprintf(format, args...)) }
func (j *judged) Fatal(args ...any)                 { j.Error(args...); runtime.Goexit() }
func (j *judged) Fatalf(format string, args ...any) { j.Errorf(format, args...); runtime.Goexit() }

// What tests of fleets do to a store.
func TestAMemoryThatFails(t *testing.T) {
	m := NewMemory()
	put := func(value string) error {
		_, err := do(m, fleet.Batch{Puts: []fleet.Put{{Key: "k", Value: []byte(value)}}})
		return err
	}
	get := func(m *Memory) string {
		r, err := do(m, fleet.Batch{Get: []string{"k"}})
		if err != nil {
			t.Error(err)
		}
		return string(r.Items["k"].Value)
	}
	if err := put("first"); err != nil {
		t.Fatal(err)
	}
	before := m.Snapshot()
	m.Break(context.DeadlineExceeded)
	if err := put("broken"); err == nil {
		t.Error("a broken store puts")
	}
	m.Break(nil)
	if got := get(m); got != "first" {
		t.Errorf("after a broken put: %q", got)
	}
	m.Lose(context.DeadlineExceeded)
	if err := put("lost"); err == nil {
		t.Error("the answer came")
	}
	m.Lose(nil)
	if got, old := get(m), get(before); got != "lost" || old != "first" {
		t.Errorf("after a put whose answer was lost: %q, and before it %q", got, old)
	}
	first, _ := do(m, fleet.Batch{})
	m.Step(-time.Hour)
	second, _ := do(m, fleet.Batch{})
	if by := first.Now.Sub(second.Now); by < 59*time.Minute || by > time.Hour || m.Batches() != 7 {
		t.Errorf("stepped by %v in %d batches", by, m.Batches())
	}
	var zero Memory
	if r, err := zero.Do(t.Context(), fleet.Batch{Puts: []fleet.Put{{Key: "k", Value: []byte("x")}}, List: "k"}); err != nil || len(r.Items) != 1 {
		t.Errorf("the zero value: %+v, %v", r, err)
	}
}
