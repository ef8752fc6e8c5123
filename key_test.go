package gabion_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// The numbers are those of the conformance list for idempotency keys; what HTTP has
// to do with them is in package gabionhttp.

// memoryKeys is a KeyStore that fails at chosen calls.
type memoryKeys struct {
	mu                  sync.Mutex
	keys                map[string]string
	loads               int
	load, insert, after error // of LoadKey; of InsertKey before and after it stored
	deaf                bool  // InsertKey stores nothing
}

func (m *memoryKeys) LoadKey(_ context.Context, intent string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	return m.keys[intent], m.load
}

func (m *memoryKeys) InsertKey(_ context.Context, intent, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.insert != nil || m.deaf {
		return m.insert
	}
	if m.keys[intent] == "" {
		m.keys[intent] = key
	}
	return m.after
}

func TestKey54_AStoredKeyIsTheKey(t *testing.T) {
	ctx := t.Context()
	s := &memoryKeys{keys: map[string]string{"old": "order-7", "bad": "order 7"}}
	one, resumed, err := gabion.KeyFor(ctx, s, "one")
	if !uuid7.MatchString(one) || resumed || err != nil || s.keys["one"] != one {
		t.Errorf("%q, %v, %v", one, resumed, err)
	}
	if again, resumed, err := gabion.KeyFor(ctx, s, "one"); again != one || !resumed || err != nil {
		t.Errorf("%q, %v, %v after %q", again, resumed, err, one)
	}
	if two, _, _ := gabion.KeyFor(ctx, s, "two"); two == one {
		t.Error("two intents share a key")
	}
	if old, resumed, err := gabion.KeyFor(ctx, s, "old"); old != "order-7" || !resumed || err != nil {
		t.Errorf("%q, %v, %v", old, resumed, err)
	}
	errDisk := errors.New("disk")
	for name, c := range map[string]struct {
		s      gabion.KeyStore
		intent string
		want   error
	}{
		"loading fails":          {&memoryKeys{load: errDisk}, "x", errDisk},
		"storing fails":          {&memoryKeys{insert: errDisk}, "x", errDisk},
		"storing fails, perhaps": {&memoryKeys{keys: map[string]string{}, after: errDisk}, "x", errDisk},
		"a store that forgets":   {&memoryKeys{deaf: true}, "x", nil},
		"a key that can't be":    {s, "bad", gabion.KeyMalformed},
		"no intent":              {s, "", nil},
		"no store":               {nil, "x", nil},
	} {
		if key, _, err := gabion.KeyFor(ctx, c.s, c.intent); key != "" || err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
}

func TestKey54_OfManyAtOnceAllGetTheSameKey(t *testing.T) {
	for name, s := range map[string]gabion.KeyStore{"memory": &memoryKeys{keys: map[string]string{}}, "files": keyFiles{t.TempDir()}} {
		var all [32]string
		var fresh int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				key, resumed, err := gabion.KeyFor(t.Context(), s, "charge")
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if all[i] = key; !resumed {
					fresh++
				}
			})
		}
		wg.Wait()
		if len(slices.Compact(all[:])) != 1 || all[0] == "" || fresh != 1 {
			t.Errorf("%s: %d were first, keys %q", name, fresh, all)
		}
	}
}

// A process that is killed while its request is out is started again, and sends the
// same key.
func TestKey54_ARestartKeepsTheKey(t *testing.T) {
	const where, whom = "GABION_TEST_KEYS", "GABION_TEST_SERVER"
	if dir := os.Getenv(where); dir != "" {
		chargeOnce(dir, os.Getenv(whom))
		return
	}
	arrived, over := make(chan string, 8), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Idempotency-Key")
		if r.Header.Get("Resumed") == "false" {
			<-over // its process is killed before that
		}
	}))
	defer s.Close()
	defer close(over)
	dir := t.TempDir()
	run := func() (*exec.Cmd, *bytes.Buffer) {
		var said bytes.Buffer
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKey54_ARestartKeepsTheKey$")
		child.Env = append(os.Environ(), where+"="+dir, whom+"="+s.URL)
		child.Stdout, child.Stderr = &said, &said
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		return child, &said
	}
	receive := func() string {
		select {
		case key := <-arrived:
			return key
		case <-time.After(30 * time.Second):
			t.Fatal("no request came")
			return ""
		}
	}
	first, _ := run()
	key := receive()
	first.Process.Kill()
	if err := first.Wait(); err == nil {
		t.Fatal("the first process ended well")
	}
	second, said := run()
	again := receive()
	if err := second.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	scan := bufio.NewScanner(said)
	if scan.Scan(); key == "" || again != key || scan.Text() != "charged" {
		t.Errorf("key %q, then %q; the second said %q", key, again, scan.Text())
	}
}

// chargeOnce is the program that is killed.
func chargeOnce(dir, url string) {
	key, resumed, err := gabion.KeyFor(context.Background(), keyFiles{dir}, "charge order-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	req, _ := http.NewRequest("POST", url, strings.NewReader("charge"))
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Resumed", fmt.Sprint(resumed))
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("bank", policy.Policy{})}}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println("charged")
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
