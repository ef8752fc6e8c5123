package gabionhttp_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// Logs and recordings go to places that secrets must not reach.
func TestNoSecretOfARequestReachesALogOrARecording(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "answer-secret", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	var written bytes.Buffer
	logs := &gabionslog.Observer{Attempts: true, Logger: slog.New(slog.NewTextHandler(&written, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	d := gabion.New("bank", policy.Policy{Timeout: policy.Timeout{Margin: policy.Off}}, gabion.WithObserver(logs), gabion.WithObserver(record.NewWriter(&written)))
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: d}}
	at := strings.Replace(server.URL, "http://", "http://user-secret:password-secret@", 1) + "/path-secret?query-secret=1"
	for _, url := range []string{at, strings.Replace(at, "127.0.0.1", "localhost", 1)} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("body-secret"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "key-secret")
		req.Header.Set("Authorization", "Bearer header-secret")
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
		}
	}
	if text := written.String(); strings.Contains(text, "secret") || strings.Count(text, "attempt_sent") < 4 || !strings.Contains(text, "503") {
		t.Errorf("written was\n%s", text)
	}
}
