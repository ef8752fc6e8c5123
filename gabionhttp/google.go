package gabionhttp

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// googleError is the error of Google's APIs, such as Gemini's, which say in the body and not in headers when to come back
// and which quota is used up: google.rpc.RetryInfo and google.rpc.QuotaFailure of cloud.google.com/apis/design/errors.
type googleError struct {
	Error struct {
		Details []struct {
			Type       string `json:"@type"`
			RetryDelay string `json:"retryDelay"`
			Violations []struct {
				Metric string `json:"quotaMetric"`
				ID     string `json:"quotaId"`
				Value  string `json:"quotaValue"`
			} `json:"violations"`
		} `json:"details"`
	} `json:"error"`
}

const (
	googleRetry = "type.googleapis.com/google.rpc.RetryInfo"
	googleQuota = "type.googleapis.com/google.rpc.QuotaFailure"
)

// peekGoogle reads what a refusal without Retry-After says in Google's way.
func (f *httpAttempt) peekGoogle(resp *http.Response) {
	if resp.Body == nil || !plainJSON(resp.Header) || resp.Header["Retry-After"] != nil || resp.Header["Retry-After-Ms"] != nil {
		return
	}
	b := &peeked{body: resp.Body}
	resp.Body = b
	var e googleError
	if json.NewDecoder(io.LimitReader(reader(b.fill), peekLimit)).Decode(&e) != nil { // what breaks breaks for the caller, too
		return
	}
	if after, told := e.read(); after > 0 || len(told) > 0 {
		f.google = &googleSaid{after, told}
	}
}

// googleSaid is what a refusal says in Google's way.
type googleSaid struct {
	after time.Duration // zero if it does not say
	told  []policy.Remaining
}

// read returns how long the answer asks to be left alone, zero if it does not, and which quotas are used up.
func (e *googleError) read() (after time.Duration, told []policy.Remaining) {
	for _, d := range e.Error.Details {
		if d.Type == googleRetry {
			if delay, ok := resetIn(d.RetryDelay, time.Time{}); ok && delay <= mostReset {
				after = max(after, delay)
			}
		}
	}
	for _, d := range e.Error.Details {
		for _, v := range d.Violations {
			q := policy.Remaining{Unit: googleUnit(v.Metric), Window: googleWindow(v.ID), Reset: after}
			if d.Type != googleQuota || q.Unit == "" || len(told) == mostQuotas {
				continue
			}
			if n, err := strconv.ParseInt(v.Value, 10, 64); err == nil && n > 0 && n <= mostLeft {
				q.Limit = float64(n)
			}
			told = append(told, q)
		}
	}
	return after, told
}

// googleUnit is the unit that a metric counts, such as generativelanguage.googleapis.com/generate_content_free_tier_requests.
func googleUnit(metric string) string {
	switch {
	case strings.HasSuffix(metric, "input_token_count"):
		return "input"
	case strings.HasSuffix(metric, "output_token_count"):
		return "output"
	case strings.HasSuffix(metric, "token_count"):
		return "tokens"
	case strings.HasSuffix(metric, "requests"):
		return policy.Requests
	}
	return ""
}

// googleWindow is the time that a quota is for, such as GenerateRequestsPerDayPerProjectPerModel-FreeTier.
func googleWindow(id string) time.Duration {
	switch {
	case strings.Contains(id, "PerMinute"):
		return time.Minute
	case strings.Contains(id, "PerDay"):
		return 24 * time.Hour
	}
	return 0
}
