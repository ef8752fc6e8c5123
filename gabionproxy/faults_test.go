package gabionproxy_test

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/idempotency"
)

func TestAnAddressThatIsSpelledOtherwise(t *testing.T) {
	up := says("up")
	defer up.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	at := func(host string) string {
		return strings.Replace(one(up.URL, ""), "127.0.0.1:0", `"`+host+":"+port+`"`, 1) + operated
	}
	r := start(t, at(""))
	for _, c := range []struct{ fact, host, says string }{
		{"the same socket", "127.0.0.1", ""},
		{"one that takes the same port", "0.0.0.0", "listen[0].address needs a restart"},
		{"one of the other protocol, too", "[::]", "listen[0].address needs a restart"},
		{"a name of the same", "localhost", "listen[0].address needs a restart"},
		{"as it was", "", ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r.write(at(c.host))
			code, body := r.admin("POST", "/reload")
			if (code == 200) != (c.says == "") || !strings.Contains(body, c.says) || c.says != "" && !strings.Contains(body, filepath.Base(r.path)+":") {
				t.Errorf("%d %s", code, body)
			}
			if code, body := get(t, "http://127.0.0.1:"+port); code != 200 || body != "up" {
				t.Errorf("after it %d %s", code, body)
			}
		})
	}
}

// A store that the file does not name any more is closed when its last request has ended, and one that a file names which is not
// put into force is closed again.
func TestAStoreThatNoFileNamesIsClosed(t *testing.T) {
	began, end := make(chan bool, 1), make(chan bool)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- true
		<-end
	}))
	defer program.Close()
	events := make(chan string, 10)
	r := startWith(t, "version: 1\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: \""+program.URL+"\", idempotency: {store: a, routes: [POST /orders]}}}\n"+operated, gabionproxy.Options{
		Store: func(name string) (idempotency.Store, error) {
			events <- "open " + name
			return idempotency.NewMemoryStore(0, 0), nil
		},
		CloseStore: func(name string) { events <- "close " + name },
	})
	want := func(event string) {
		t.Helper()
		select {
		case got := <-events:
			if got != event {
				t.Errorf("%s, want %s", got, event)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("never %s", event)
		}
	}
	write := func(store, more string) (int, string) {
		r.write("version: 1\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: \"" + program.URL + "\", idempotency: {store: " + store + ", routes: [POST /orders]}}}\n" + more + operated)
		return r.admin("POST", "/reload")
	}
	want("open a")
	ended := make(chan int, 1)
	go func() {
		status, _, _ := order(t, r.url("127.0.0.1:0")+"/orders", "k", "x")
		ended <- status
	}()
	<-began
	if code, body := write("b", ""); code != 200 {
		t.Fatal(code, body)
	}
	want("open b")
	if code, body := write("c", "    - {address: 203.0.113.1:1, ingress: {to: \"http://127.0.0.1:1\"}}\n"); code == 200 { // no address of this machine
		t.Fatal(code, body)
	}
	want("open c")
	want("close c")
	close(end)
	if status := <-ended; status != 200 {
		t.Errorf("%d under the store of before", status)
	}
	want("close a")
	if status, text, _ := order(t, r.url("127.0.0.1:0")+"/orders", "k", "x"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if len(events) > 0 {
		t.Errorf("then %s", <-events)
	}
}

// What keys and admission refuse before a program is a status for a client of gRPC, as package gabiongrpc reads it, and names its reason to others.
func TestARefusalBeforeAProgramIsAStatusForCalls(t *testing.T) {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"type":"about:blank","title":"sold out"}`)
	}))
	defer program.Close()
	url := before(t, program.URL, "idempotency: {store: gabion.db, routes: [POST /shop.Orders/Add]}")
	for _, c := range []struct{ fact, kind, key, body, status, says, reason string }{
		{"no key", "application/grpc", "", "a", "3", "KEY_MISSING", "key_missing"},
		{"the program's own", "application/grpc", "k", "a", "", "", ""},
		{"again", "application/grpc", "k", "a", "", "", ""},
		{"another request", "application/grpc", "k", "b", "9", "KEY_REUSED", "key_reused"},
		{"for the web", "application/grpc-web+proto", "k", "b", "", "grpc-status: 9", "key_reused"},
		{"for Connect", "application/connect+proto", "k", "b", "", "failed_precondition", "key_reused"},
		{"for HTTP", "text/plain", "", "a", "", "urn:gabion:idempotency:missing", "key_missing"},
		{"the program's own, for HTTP", "text/plain", "h", "a", "", "", ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			req, _ := http.NewRequest("POST", url+"/shop.Orders/Add", strings.NewReader(c.body))
			req.Header = http.Header{"Content-Type": {c.kind}}
			if c.key != "" {
				req.Header.Set("Idempotency-Key", c.key)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			binary, err := base64.RawStdEncoding.DecodeString(resp.Header.Get("Grpc-Status-Details-Bin"))
			if err != nil {
				t.Error(err)
			}
			details := string(binary)
			if got := resp.Header.Get(gabionproxy.HeaderReason); got != c.reason || (got != "") != (resp.Header.Get(gabionproxy.HeaderAttempts) == "0") {
				t.Errorf("%v", resp.Header)
			}
			if resp.Header.Get("Grpc-Status") != c.status || !strings.Contains(string(body)+details, c.says) || c.says == "" && !strings.Contains(string(body), "sold out") {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
			}
			if strings.HasPrefix(c.says, "KEY_") && !strings.Contains(details, "idempotency.gabion") {
				t.Errorf("%q", details)
			}
		})
	}
}

func TestAPortInUseIsNamedWithWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for key, text := range map[string]string{
		"proxy.listen": strings.Replace(one("http://127.0.0.1:1", ""), "127.0.0.1:0", taken.Addr().String(), 1),
		"proxy.admin":  one("http://127.0.0.1:1", "") + strings.Replace(operated, "127.0.0.1:0", taken.Addr().String(), 1),
	} {
		path := filepath.Join(t.TempDir(), "gabion.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		registry, err := gabion.NewRegistry(file.Policies)
		if err != nil {
			t.Fatal(err)
		}
		err = gabionproxy.Run(t.Context(), file, registry, nil, gabionproxy.Options{}, func(*gabionproxy.Proxy) { t.Error("it serves") })
		if want := "another program listens there: stop it, or write another address into " + key; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), taken.Addr().String()) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
