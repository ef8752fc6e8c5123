package stormcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab/flaky"
)

// thresholds are what a storm must meet. Zero means no threshold; for duplicates a negative number
// does.
type thresholds struct {
	success, amplification float64
	p99                    time.Duration
	duplicates             int64
}

// reportVersion is the version of the report's JSON. Fields are added, never changed.
const reportVersion = 1

// report is what came of a storm.
type report struct {
	Version       int            `json:"version"`
	URL           string         `json:"url"`
	PerSecond     float64        `json:"per_second"`
	Seconds       float64        `json:"seconds"`
	Seed          uint64         `json:"seed"`
	Interrupted   bool           `json:"interrupted"`
	Calls         int            `json:"calls"` // that were meant to be sent
	Sent          int            `json:"sent"`
	NotSent       int            `json:"not_sent"` // since too many were open
	Succeeded     int            `json:"succeeded"`
	Success       float64        `json:"success"` // as a share of Calls
	Answers       map[string]int `json:"answers"`
	P50           float64        `json:"p50_ms"` // of all that were sent, failed ones too
	P90           float64        `json:"p90_ms"`
	P99           float64        `json:"p99_ms"`
	Max           float64        `json:"max_ms"`
	LateP99       float64        `json:"late_p99_ms"` // by how much requests were sent too late: this machine's doing
	MostOpen      int            `json:"most_open"`
	Server        *flaky.Counts  `json:"server,omitempty"`
	Amplification float64        `json:"amplification,omitempty"` // requests that reached Server ÷ Sent
	Thresholds    []threshold    `json:"thresholds"`
}

// threshold is one that was asked for.
type threshold struct {
	Name     string `json:"name"`
	Wanted   string `json:"wanted"`
	Measured string `json:"measured"`
	Met      bool   `json:"met"`
}

// run sends the storm and measures it.
func (req *request) run(ctx context.Context) (*report, error) {
	client := newClient(req.remote, req.maxOpen)
	defer client.CloseIdleConnections()
	if req.server != "" {
		if _, err := counts(ctx, client, http.MethodDelete, req.server); err != nil {
			return nil, err
		}
	}
	if err := reachable(ctx, client, req.url); err != nil {
		return nil, err
	}
	began := time.Now()
	calls, most := req.send(ctx, client)
	r := req.measure(calls, most)
	r.Seconds, r.Interrupted = time.Since(began).Seconds(), ctx.Err() != nil
	if req.server != "" {
		var err error
		asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if r.Server, err = counts(asked, client, http.MethodGet, req.server); err != nil {
			return nil, err
		}
		r.Amplification = float64(r.Server.Requests) / float64(max(r.Sent, 1))
	}
	r.judge(&req.wanted)
	return r, nil
}

// reachable refuses a target on another machine before anything is sent.
func reachable(ctx context.Context, client *http.Client, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	conn, err := client.Transport.(*http.Transport).DialContext(ctx, "tcp", joined(u.Hostname(), port))
	if err != nil {
		if what := why(err); what == errRemote.Error() || what == unknownHost {
			return err
		}
		return nil // that it is down is what the storm is to show
	}
	return conn.Close()
}

func joined(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// counts asks a gabion flaky what reached it, or begins its plan anew.
func counts(ctx context.Context, client *http.Client, method, server string) (*flaky.Counts, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawQuery = flaky.CountsPath, ""
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	defer resp.Body.Close()
	var c flaky.Counts
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&c); err != nil || resp.StatusCode != http.StatusOK || c.Version != flaky.CountsVersion {
		return nil, fmt.Errorf("--server: %s says %s and not what a gabion flaky of this version does", u, resp.Status)
	}
	return &c, nil
}

func (req *request) measure(calls []call, most int) *report {
	r := &report{Version: reportVersion, URL: req.url, PerSecond: req.rate, Seed: req.seed, Calls: len(calls), Answers: map[string]int{}, MostOpen: most, Thresholds: []threshold{}}
	var took, late []time.Duration
	for _, c := range calls {
		r.Answers[c.what]++
		late = append(late, c.late)
		if c.sent {
			r.Sent++
			took = append(took, c.took)
		}
		if c.good {
			r.Succeeded++
		}
	}
	r.NotSent = r.Calls - r.Sent
	r.Success = float64(r.Succeeded) / float64(max(r.Calls, 1))
	r.P50, r.P90, r.P99, r.Max = percentile(took, 0.5), percentile(took, 0.9), percentile(took, 0.99), percentile(took, 1)
	r.LateP99 = percentile(late, 0.99)
	return r
}

// percentile is the nearest rank's, in milliseconds.
func percentile(times []time.Duration, p float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	rank := int(math.Ceil(p * float64(len(times))))
	return math.Round(float64(times[max(rank-1, 0)])/1e3) / 1e3
}

// judge compares with what was wanted. What could not be measured is missed.
func (r *report) judge(w *thresholds) {
	add := func(name, wanted, measured string, met bool) {
		r.Thresholds = append(r.Thresholds, threshold{name, wanted, measured, met && r.Calls > 0})
	}
	if w.success > 0 {
		add("success", fmt.Sprintf(">= %.6g%%", 100*w.success), fmt.Sprintf("%.4g%%", 100*r.Success), r.Success >= w.success)
	}
	if w.p99 > 0 {
		limit := float64(w.p99) / 1e6
		add("p99", "<= "+w.p99.String(), fmt.Sprintf("%.1fms", r.P99), r.P99 <= limit && r.Sent > 0)
	}
	if w.amplification > 0 {
		add("amplification", fmt.Sprintf("<= %.6g", w.amplification), fmt.Sprintf("%.3f", r.Amplification), r.Amplification <= w.amplification && r.Server.Requests > 0)
	}
	if w.duplicates >= 0 {
		add("duplicates", fmt.Sprintf("<= %d", w.duplicates), fmt.Sprint(r.Server.Duplicates), r.Server.Duplicates <= w.duplicates && r.Server.Requests > 0)
	}
}

func (r *report) missed() bool {
	return slices.ContainsFunc(r.Thresholds, func(t threshold) bool { return !t.Met })
}

// print says it to people.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s to %s in %.1f s, %.4g/s\n", cli.Count(r.Calls, "request"), r.URL, r.Seconds, r.PerSecond)
	fmt.Fprintf(w, "  success     %.4g%%\n", 100*r.Success)
	var answers []string
	for _, what := range slices.Sorted(maps.Keys(r.Answers)) {
		answers = append(answers, fmt.Sprintf("%d %s", r.Answers[what], what))
	}
	fmt.Fprintf(w, "  answers     %s\n", strings.Join(answers, ", "))
	fmt.Fprintf(w, "  latency     p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, longest %.1f ms; failed ones too\n", r.P50, r.P90, r.P99, r.Max)
	if r.NotSent > 0 {
		fmt.Fprintf(w, "  NOT SENT    %d, since %d were open: the rest is of less load than was asked for\n", r.NotSent, r.MostOpen)
	}
	if r.LateP99 > 50 {
		fmt.Fprintf(w, "  LATE        this machine sent one request of a hundred more than %.0f ms too late\n", r.LateP99)
	}
	if s := r.Server; s != nil {
		fmt.Fprintf(w, "  server      %s, %.3f for each one sent; work done %s, %d of them again under the same key\n", cli.Count(s.Requests, "request"), r.Amplification, cli.Count(s.Executions, "time"), s.Duplicates)
		if s.Requests == 0 {
			fmt.Fprintln(w, "              nothing reached it: is it behind the service that was tested?")
		}
	}
	for _, t := range r.Thresholds {
		met := "met   "
		if !t.Met {
			met = "MISSED"
		}
		fmt.Fprintf(w, "  %s      %s %s, measured %s\n", met, t.Name, t.Wanted, t.Measured)
	}
	if r.Interrupted {
		fmt.Fprintln(w, "  interrupted before its end")
	}
}
