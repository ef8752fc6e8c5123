package gabionhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// watchEvent is one line of a Kubernetes watch.
type watchEvent struct {
	Type   string `json:"type"`
	Object struct {
		Code     int `json:"code,omitempty"` // of a Status, in an ERROR
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	} `json:"object"`
}

// apiServer speaks the watch wire: a list with a version, and after that one event for each
// version, as lines of JSON in chunks. A new version comes each gap.
type apiServer struct {
	gap      time.Duration
	bookmark time.Duration // how often a stream says where it is when nothing changes; 0 for never
	last     int           // the version after which nothing more happens
	cutAt    int           // the stream breaks off in the middle of this version's event, once; 0 for never
	goneAs   string        // how the server says after the cut that the version is gone: "", "event" or "status"

	began          time.Time
	cut            atomic.Bool
	gone           atomic.Bool
	lists, watches atomic.Int32
}

func (a *apiServer) version() int { return min(int(time.Since(a.began)/a.gap), a.last) }

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.FormValue("watch") == "" {
		a.lists.Add(1)
		fmt.Fprintf(w, `{"kind":"PodList","metadata":{"resourceVersion":"%d"},"items":[]}`, a.version())
		return
	}
	a.watches.Add(1)
	from, _ := strconv.Atoi(r.FormValue("resourceVersion"))
	if a.cut.Load() && a.goneAs != "" && !a.gone.Swap(true) {
		if a.goneAs == "status" {
			w.WriteHeader(http.StatusGone)
			io.WriteString(w, `{"kind":"Status","code":410,"reason":"Expired"}`)
			return
		}
		io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}`+"\n")
		return
	}
	a.stream(w, r.Context(), from)
}

// stream sends what comes after a version.
func (a *apiServer) stream(w http.ResponseWriter, ctx context.Context, version int) {
	out := http.NewResponseController(w)
	out.Flush()
	said := time.Now()
	for version < a.last {
		for version < a.version() {
			version++
			line := fmt.Sprintf(`{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"resourceVersion":"%d"}}}`+"\n", version)
			if version == a.cutAt && !a.cut.Swap(true) {
				io.WriteString(w, line[:len(line)/2])
				out.Flush()
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, line)
			said = time.Now()
		}
		if a.bookmark > 0 && time.Since(said) >= a.bookmark {
			fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", version)
			said = time.Now()
		}
		out.Flush()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// follow watches the server as client-go's Reflector does: it lists, watches from the list's
// version, and a second after a stream ends watches again from the last version that it saw. It
// lists again when the server says that its version is gone. It returns the events in order, and
// how often gabion refused it.
func follow(t *testing.T, c *http.Client, url string, until int) (seen []int, refused int) {
	at, listed := 0, false
	for at < until && t.Context().Err() == nil {
		if !listed {
			version, err := list(c, url)
			if err != nil {
				time.Sleep(time.Second)
				continue
			}
			at, listed = version, true
		}
		resp, err := c.Get(fmt.Sprintf("%s/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=%d", url, at))
		if err != nil {
			refused++
			time.Sleep(time.Second)
			continue
		}
		listed = resp.StatusCode != http.StatusGone
		for in := json.NewDecoder(resp.Body); ; {
			var e watchEvent
			if in.Decode(&e) != nil || resp.StatusCode != 200 {
				break
			}
			if e.Type == "ERROR" && e.Object.Code == http.StatusGone {
				listed = false
				break
			}
			at, _ = strconv.Atoi(e.Object.Metadata.ResourceVersion)
			if e.Type != "BOOKMARK" {
				seen = append(seen, at)
			}
		}
		resp.Body.Close()
		if at < until {
			time.Sleep(time.Second)
		}
	}
	return seen, refused
}

func list(c *http.Client, url string) (version int, err error) {
	resp, err := c.Get(url + "/api/v1/pods")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var l watchEvent
	if err := json.NewDecoder(resp.Body).Decode(&l.Object); err != nil {
		return 0, err
	}
	return strconv.Atoi(l.Object.Metadata.ResourceVersion)
}

// TestAWatchMissesNothing: an hour of a Kubernetes watch, by a client of the same wire, alone
// and with gabion under it: the same events come in the same order, and as many requests are
// made, but where silences are longer than timeout.idle.
func TestAWatchMissesNothing(t *testing.T) {
	long := policy.Policy{Timeout: policy.Timeout{Idle: 90 * time.Second}}
	tests := []struct {
		name           string
		server         apiServer
		policy         policy.Policy
		lists, watches int32 // requests with gabion; alone there are no more
		alone          int32 // watches without gabion
	}{
		{"silences shorter than the idle timeout", apiServer{gap: 25 * time.Second, last: 144}, policy.Policy{}, 1, 1, 1},
		{"bookmarks each minute, and an idle timeout above", apiServer{gap: 10 * time.Minute, bookmark: time.Minute, last: 6}, long, 1, 1, 1},
		{"cut in the middle of an event", apiServer{gap: 10 * time.Second, last: 360, cutAt: 100}, policy.Policy{}, 1, 2, 2},
		{"cut, and then the version is gone, by an event", apiServer{gap: 10 * time.Second, last: 360, cutAt: 100, goneAs: "event"}, policy.Policy{}, 2, 3, 3},
		{"cut, and then the version is gone, by a status", apiServer{gap: 10 * time.Second, last: 360, cutAt: 100, goneAs: "status"}, policy.Policy{}, 2, 3, 3},
		{"silences longer than the idle timeout", apiServer{gap: 50 * time.Second, last: 72}, policy.Policy{}, 1, 73, 1},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			var got [2][]int
			for with := range 2 {
				synctest.Test(t, func(t *testing.T) {
					a := apiServer{gap: tt.server.gap, bookmark: tt.server.bookmark, last: tt.server.last, cutAt: tt.server.cutAt, goneAs: tt.server.goneAs}
					a.began = time.Now()
					s := servePiped(t, a.ServeHTTP)
					c := &http.Client{Transport: base(t, s)}
					watches := tt.alone
					if with == 1 {
						d := gabion.New("kube", tt.policy)
						c.Transport, watches = &gabionhttp.Transport{Dependency: d, Base: c.Transport}, tt.watches
						defer gabiontest.NothingHeld(t, d)
					}
					var refused int
					got[with], refused = follow(t, c, s.URL, a.last)
					if a.lists.Load() != tt.lists || a.watches.Load() != watches || refused != 0 {
						t.Errorf("with gabion %d: %d lists, %d watches, %d refused; want %d, %d, 0", with, a.lists.Load(), a.watches.Load(), refused, tt.lists, watches)
					}
				})
			}
			if fmt.Sprint(got[0]) != fmt.Sprint(got[1]) || len(got[1]) < tt.server.last-2 {
				t.Errorf("alone:      %v\nwith gabion: %v", got[0], got[1])
			}
		})
	}
}

// TestFiftyQuietWatches: fifty watches of one server bring no event for ten minutes. With
// bookmarks and an idle timeout above them each stays one stream, and none is refused. Under the
// default, as docs/http.md says, each is ended twice a minute, and these failures in a row open
// the breaker.
func TestFiftyQuietWatches(t *testing.T) {
	tests := []struct {
		name    string
		policy  policy.Policy
		refuses bool
	}{
		{"an idle timeout above the bookmarks", policy.Policy{Timeout: policy.Timeout{Idle: 90 * time.Second}}, false},
		{"the default", policy.Policy{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := apiServer{gap: 10 * time.Minute, bookmark: time.Minute, last: 3, began: time.Now()}
				s := servePiped(t, a.ServeHTTP)
				c, _ := client(t, tt.policy, base(t, s))
				var refused atomic.Int64
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						seen, n := follow(t, c, s.URL, a.last)
						if refused.Add(int64(n)); len(seen) != a.last {
							t.Errorf("got %v", seen)
						}
					})
					time.Sleep(600 * time.Millisecond)
				}
				wg.Wait()
				if n := refused.Load(); (n > 0) != tt.refuses || !tt.refuses && a.watches.Load() != 50 {
					t.Errorf("%d watches were refused, %d were made", n, a.watches.Load())
				}
			})
		})
	}
}
