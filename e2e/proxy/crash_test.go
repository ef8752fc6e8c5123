package proxy

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gabion-go/gabion/internal/testservers"
)

// ends are how orders ended for their clients, by their names.
type ends struct {
	mu      sync.Mutex
	done    map[string]bool
	held    map[string]bool
	lost    []string // no end was seen
	repeats int
	plenty  chan struct{} // closed when enough is done for a test to show something
	more    chan struct{} // one was done since this was read
}

// plenty is how many orders are done at least before the killing ends.
const plenty = 60

// shop lets clients order until ctx is over. Each order is sent with one key until its end is
// known: it is done, or it is held because its outcome is unknown.
func (e *ends) shop(ctx context.Context, t *testing.T, url string, clients int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: 10 * time.Second}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				e.order(t, client, url, fmt.Sprintf("order-%d-%d", c, n))
			}
		})
	}
	wg.Wait()
	client.CloseIdleConnections()
}

func (e *ends) order(t *testing.T, client *http.Client, url, name string) {
	for until := time.Now().Add(40 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		status, text := send(client, url, name)
		e.mu.Lock()
		switch {
		case status == http.StatusCreated && text == "done "+name:
			if e.done[name] = true; len(e.done) == plenty {
				close(e.plenty)
			}
			select {
			case e.more <- struct{}{}:
			default:
			}
		case status == http.StatusConflict && strings.Contains(text, "outcome-unknown"):
			e.held[name] = true
		case status == 0 || status == http.StatusServiceUnavailable || strings.Contains(text, "in-progress") || status == http.StatusBadGateway:
			e.repeats++
			e.mu.Unlock()
			if strings.Contains(text, "in-progress") {
				time.Sleep(200 * time.Millisecond)
			}
			continue
		default:
			t.Errorf("%s: %d %q", name, status, text)
		}
		e.mu.Unlock()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = append(e.lost, name)
}

func send(client *http.Client, url, name string) (status int, text string) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(name))
	if err != nil {
		return 0, ""
	}
	req.Header.Set("Idempotency-Key", name)
	req.GetBody = nil // so that net/http repeats nothing by itself
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(all)
}

// judge compares what clients were told with what a witness saw: effects has how often each
// order took effect.
func (e *ends) judge(t *testing.T, effects map[string]int) {
	t.Helper()
	doubled, without, between := 0, 0, 0
	for name, n := range effects {
		if n > 1 {
			doubled++
			t.Errorf("%s took effect %d times", name, n)
		}
	}
	for name := range e.done {
		if effects[name] == 0 {
			without++
			t.Errorf("%s is said to be done and took no effect", name)
		}
	}
	for name := range e.held {
		between += effects[name]
	}
	if len(e.lost) > 0 {
		t.Errorf("%d orders have no end, such as %s", len(e.lost), e.lost[0])
	}
	t.Logf("%d done, %d held as unknown (of which %d took effect), %d sendings repeated; %d doubled, %d done without effect",
		len(e.done), len(e.held), between, e.repeats, doubled, without)
	if len(e.done) < plenty || e.repeats == 0 {
		t.Error("too little happened for this to show anything")
	}
}

// witnessed reads the lines of the plain program's witness.
func witnessed(t *testing.T, name string) map[string]int {
	t.Helper()
	all, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	effects := map[string]int{}
	for line := range bytes.Lines(all) {
		effects[strings.TrimSpace(string(line))]++
	}
	return effects
}

// before returns the file of a proxy before a program.
func before(t *testing.T, at, to, more string) string {
	return stored(at, to, "bolt:"+filepath.Join(t.TempDir(), "keys"), more)
}

// stored is before with a store.
func stored(at, to, store, more string) string {
	return fmt.Sprintf("version: 1\nproxy:\n  listen:\n    - address: %s\n      ingress: {to: \"http://%s\", idempotency: {store: \"%s\", routes: [POST /orders]%s}}\n",
		at, to, store, more)
}

// kills ends processes at random moments and starts them again: at least the given number of times, and until there is plenty, or ctx is over. On
// a slow machine a start takes longer than such a moment. With more, they end only after something more was done.
func kills(ctx context.Context, least int, plenty, more <-chan struct{}, all ...*process) {
	for n := 0; ; n++ {
		select {
		case <-more: // by those that were ended
		default:
		}
		if more != nil {
			select {
			case <-more:
			case <-time.After(2 * time.Second): // clients may wait for keys of those that were ended
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-plenty:
			if n >= least {
				return
			}
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(150+rand.IntN(300)) * time.Millisecond):
		}
		for _, p := range all {
			p.kill()
		}
		for _, p := range all {
			p.start()
		}
	}
}

// A program that knows nothing of gabion: whichever process is killed, each order takes effect
// once, or the answer says that its outcome is unknown.
func TestKilledBeforeAPlainProgram(t *testing.T) {
	long(t, "processes are killed for some seconds")
	for _, victims := range []string{"proxy", "program", "both"} {
		t.Run(victims, func(t *testing.T) {
			at, witness := addresses(t, 2), filepath.Join(t.TempDir(), "witness")
			program := run(t, at[1], []string{roleEnv + "=plain"}, os.Args[0], at[1], witness)
			proxy := proxied(t, at[0], before(t, at[0], at[1], ""))
			all := map[string][]*process{"proxy": {proxy}, "program": {program}, "both": {proxy, program}}[victims]
			e := through(t, at[0], 8, all...)
			e.judge(t, witnessed(t, witness))
		})
	}
}

// With a store that other proxies may share, a key of a killed run is held as unknown once its claim
// has run out, not at the next start. Each client waits that long for its order that was under way, so
// it takes more clients.
func TestKilledWithStoresForSeveral(t *testing.T) {
	long(t, "claims run out in half a minute")
	for name, store := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "keys.db") },
		"postgres": func(t *testing.T) string { return testservers.Postgres(t) },
		"nats":     natsKeys,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			at, witness := addresses(t, 2), filepath.Join(t.TempDir(), "witness")
			run(t, at[1], []string{roleEnv + "=plain"}, os.Args[0], at[1], witness)
			proxy := proxied(t, at[0], stored(at[0], at[1], store(t), ""))
			e := through(t, at[0], 40, proxy)
			e.judge(t, witnessed(t, witness))
			if len(e.held) == 0 {
				t.Error("no order is held: no kill met one under way")
			}
		})
	}
}

// natsKeys starts a server of the version that tests have as a module: systems have older ones.
func natsKeys(t *testing.T) string {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not answer")
	}
	return s.ClientURL() + "/keys"
}

// through lets clients order while processes are killed, however long a slow machine takes for that.
func through(t *testing.T, at string, clients int, victims ...*process) *ends {
	t.Helper()
	e := &ends{done: map[string]bool{}, held: map[string]bool{}, plenty: make(chan struct{}), more: make(chan struct{}, 1)}
	killing, spare := context.WithTimeout(t.Context(), time.Minute)
	defer spare()
	ordering, end := context.WithCancel(t.Context())
	defer end()
	var wg sync.WaitGroup
	wg.Go(func() { kills(killing, 12, e.plenty, e.more, victims...); end() })
	wg.Go(func() { e.shop(ordering, t, "http://"+at+"/orders", clients) })
	wg.Wait()
	return e
}

// A program that takes the key's header into its own transaction: exactly once, and no outcome
// stays unknown.
func TestKilledBeforeATransactionalProgram(t *testing.T) {
	long(t, "processes are killed for some seconds")
	at, file := addresses(t, 2), filepath.Join(t.TempDir(), "orders.db")
	program := run(t, at[1], []string{roleEnv + "=transactional"}, os.Args[0], at[1], file)
	proxy := proxied(t, at[0], before(t, at[0], at[1], ", repeat_lost: true"))
	e := through(t, at[0], 8, proxy, program)
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT name, count(*) FROM effects GROUP BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	effects := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		effects[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	e.judge(t, effects)
	if len(e.held) > 0 {
		t.Errorf("%d orders are held", len(e.held))
	}
}
