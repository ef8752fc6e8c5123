package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A reader is a viewer's end of a stream. While it is stuck, writes wait, as they do when a
// viewer's network is slow.
type reader struct {
	header http.Header

	mu    sync.Mutex
	text  bytes.Buffer
	stuck chan struct{} // nil while it reads
}

func (r *reader) Header() http.Header { return r.header }
func (r *reader) WriteHeader(int)     {}
func (r *reader) Flush()              {}

func (r *reader) Write(b []byte) (int, error) {
	r.mu.Lock()
	stuck := r.stuck
	r.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *reader) stick() (loosen func()) {
	stuck := make(chan struct{})
	r.mu.Lock()
	r.stuck = stuck
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		r.stuck = nil
		r.mu.Unlock()
		close(stuck)
	}
}

// frames returns what came since it was last asked.
func (r *reader) frames(t *testing.T) (all []frame) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for part := range strings.SplitSeq(r.text.String(), "\n\n") {
		_, data, ok := strings.Cut(part, "\ndata: ")
		if !ok {
			continue
		}
		var f frame
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			t.Fatalf("%v: %q", err, part)
		}
		all = append(all, f)
	}
	r.text.Reset()
	return all
}

// watch opens a stream.
func watch(p *Page, lastID string) (r *reader, leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r = &reader{header: http.Header{}}
	request := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/stream", nil)
	request.Header.Set("Last-Event-ID", lastID)
	go p.ServeHTTP(r, request)
	return r, cancel
}

func succeed(context.Context) error { return nil }

func TestStreamSendsAFrameASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := newRegistry(t, "bank", "mail")
		p := New(Config{Registry: registry})
		defer p.Close()
		d, _ := registry.Get("bank")
		r, leave := watch(p, "")
		defer leave()
		synctest.Wait()
		first := r.frames(t)
		if len(first) != 1 || !first[0].Full || len(first[0].Tiles) != 2 {
			t.Fatalf("the first frame is %+v", first)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		r.frames(t) // it has every tile once more
		for range 3 {
			d.Run(t.Context(), succeed)
			time.Sleep(time.Second)
			synctest.Wait()
			f := r.frames(t)
			if len(f) != 1 || f[0].Full || len(f[0].Tiles) != 1 || !strings.Contains(string(f[0].Tiles[0]), `"name":"bank"`) {
				t.Errorf("a second later there are %d frames: %+v", len(f), f)
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if f := r.frames(t); len(f) != 120 || len(f[119].Tiles) != 0 {
			t.Errorf("%d frames in two quiet minutes", len(f))
		}
	})
}

// A viewer that does not read delays no other, and sees the truth when it reads again.
func TestSlowViewerLosesFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := newRegistry(t, "bank")
		p := New(Config{Registry: registry})
		defer p.Close()
		d, _ := registry.Get("bank")
		slow, leaveSlow := watch(p, "")
		quick, leaveQuick := watch(p, "")
		defer leaveSlow()
		defer leaveQuick()
		time.Sleep(time.Second)
		synctest.Wait()
		slow.frames(t)
		quick.frames(t)
		loosen := slow.stick()
		for range 100 {
			d.Run(t.Context(), succeed)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if f := quick.frames(t); len(f) != 100 {
			t.Errorf("the other viewer got %d frames of 100", len(f))
		}
		for v := range p.hub.viewers {
			if len(v.queue) > queuedFrames {
				t.Errorf("%d frames wait for a viewer", len(v.queue))
			}
		}
		loosen()
		synctest.Wait()
		f := slow.frames(t)
		if len(f) < 1 || len(f) > 2 || !f[len(f)-1].Full {
			t.Fatalf("the slow viewer got %d frames, full %v", len(f), f[len(f)-1].Full)
		}
		d.Run(t.Context(), succeed)
		time.Sleep(time.Second)
		synctest.Wait()
		if f := slow.frames(t); len(f) != 1 || f[0].Full || len(f[0].Tiles) != 1 {
			t.Errorf("and then %+v", f)
		}
	})
}

// A viewer that comes back to its stream after a while, as a machine that slept does, gets the
// seconds that no frame told.
func TestAViewerThatComesBackGetsWhatWasMeanwhile(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			registry := newRegistry(t, "bank")
			p := New(Config{Registry: registry})
			defer p.Close()
			d, _ := registry.Get("bank")
			r, leave := watch(p, "")
			time.Sleep(3 * time.Second)
			synctest.Wait()
			had := r.frames(t)
			p.hub.frames.Lock()
			seen := p.hub.number
			p.hub.frames.Unlock()
			leave()
			for range 10 {
				d.Run(t.Context(), succeed)
				time.Sleep(away / 10)
			}
			again, leave := watch(p, fmt.Sprintf("%x-%d", p.origin.UnixNano(), seen))
			defer leave()
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			all := again.frames(t)
			if len(all) == 0 {
				t.Fatal("nothing came")
			}
			last := had[len(had)-1].Second
			for _, f := range all {
				if !f.Full && f.Second > last+1 {
					t.Errorf("away for %v: seconds %d to %d are in no frame", away, last+1, f.Second-1)
				}
				last = f.Second
			}
		})
	}
}

// When the last viewer has left, nothing runs: the bubble would not end otherwise.
func TestLeavingFreesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Registry: newRegistry(t, "bank")})
		var leave []func()
		for range 50 {
			_, l := watch(p, "")
			leave = append(leave, l)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := len(p.hub.viewers); n != 50 {
			t.Fatalf("%d viewers", n)
		}
		for _, l := range leave {
			l()
		}
		synctest.Wait()
		if len(p.hub.viewers) != 0 || p.hub.running {
			t.Errorf("%d viewers are left, the sampler runs: %v", len(p.hub.viewers), p.hub.running)
		}
		number := p.hub.number
		time.Sleep(time.Minute)
		if p.hub.number != number {
			t.Error("frames are made without a viewer")
		}
		_, again := watch(p, "")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p.hub.number == number {
			t.Error("nothing is made for a viewer who comes later")
		}
		again()
	})
}

func TestCloseEndsStreamsAndObserving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := newRegistry(t, "bank")
		single := gabion.New("single", policy.Policy{})
		p := New(Config{Registry: registry, Dependencies: []*gabion.Dependency{single, nil}})
		watch(p, "") // and never leaves
		time.Sleep(time.Second)
		single.Run(t.Context(), succeed)
		p.Close()
		p.Close()
		synctest.Wait()
		if len(p.hub.viewers) != 0 {
			t.Error("a stream goes on")
		}
		d, _ := registry.Get("bank")
		d.Run(t.Context(), succeed)
		single.Run(t.Context(), succeed)
		if r := tileOf(t, p, "bank"); r.Calls != 0 {
			t.Errorf("a closed page still observes: %+v", r)
		}
		if r := tileOf(t, p, "single"); r.Calls != 1 {
			t.Errorf("what was seen before is gone: %+v", r)
		}
		if w := ask(p, "GET", "/api/v1/stream"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a stream of a closed page: %d", w.Code)
		}
	})
}

// A viewer that comes back gets what it missed, or everything if that is gone.
func TestLastEventID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Registry: newRegistry(t, "bank")})
		defer p.Close()
		_, leave := watch(p, "")
		defer leave()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		name := fmt.Sprintf("%x", p.origin.UnixNano())
		for _, c := range []struct {
			id     string
			frames int
			full   bool
		}{
			{fmt.Sprint(name, "-", p.hub.number), 0, false},
			{fmt.Sprint(name, "-", p.hub.number-3), 3, false},
			{fmt.Sprint(name, "-", p.hub.number-uint64(queuedFrames)-1), 1, true},
			{fmt.Sprint(name, "-", p.hub.number+5), 1, true},
			{fmt.Sprint("1-", p.hub.number), 1, true},
			{"nonsense", 1, true},
			{"", 1, true},
		} {
			r, leave := watch(p, c.id)
			synctest.Wait()
			f := r.frames(t)
			leave()
			if len(f) != c.frames || (len(f) > 0 && f[0].Full != c.full) {
				t.Errorf("after %q: %d frames, want %d, full %v", c.id, len(f), c.frames, c.full)
			}
		}
	})
}

// A server's timeouts are for requests that end.
func TestStreamOutlivesTheServersTimeouts(t *testing.T) {
	p := New(Config{Registry: newRegistry(t, "bank")})
	server := httptest.NewUnstartedServer(p)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.Start()
	t.Cleanup(func() { p.Close(); server.Close() })
	resp, err := http.Get(server.URL + "/api/v1/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for frames := 0; frames < 3; {
		if !lines.Scan() {
			t.Fatalf("after %d frames the stream ended: %v", frames, lines.Err())
		}
		if strings.HasPrefix(lines.Text(), "data: ") {
			frames++
		}
	}
}

func TestOnceIsOneFrame(t *testing.T) {
	p := New(Config{Registry: newRegistry(t, "bank")})
	defer p.Close()
	w := ask(p, "GET", "/x/api/v1/stream?once=1")
	if w.Header().Get("Content-Type") != "text/event-stream" || strings.Count(w.Body.String(), "data: ") != 1 || !strings.HasSuffix(w.Body.String(), "\n\n") {
		t.Errorf("%v %q", w.Header(), w.Body)
	}
}

// Observers, viewers and Close at the same time, for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	registry := newRegistry(t, "bank", "mail")
	p := New(Config{Registry: registry, AllowOverrides: true})
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for n := range 4 {
		all.Go(func() {
			d, _ := registry.Get([]string{"bank", "mail"}[n%2])
			for ctx.Err() == nil {
				d.Run(ctx, func(context.Context) error {
					if n == 0 {
						return fmt.Errorf("no")
					}
					return nil
				})
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				ask(p, "GET", []string{"/", "/api/v1/state", "/api/v1/dependency?name=bank", "/api/v1/stream?once=1"}[n])
				post(p, "page.example", nil, `{"dependency":"bank","action":"reset"}`)
			}
		})
		all.Go(func() { // pages come and go while calls are under way
			for ctx.Err() == nil {
				other := New(Config{Registry: registry})
				ask(other, "GET", "/api/v1/state")
				other.Close()
			}
		})
		all.Go(func() {
			r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/stream", nil)
			p.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	all.Wait()
	p.Close()
	for limit := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%d goroutines are left, %d were there", runtime.NumGoroutine(), before)
		}
	}
}
