package lettercmd

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// jsonVersion is of everything that --json and export print. It grows when a field changes its
// meaning or goes, not when one is added.
const jsonVersion = 1

// A record is a letter as JSON.
type record struct {
	Version  int             `json:"version"`
	ID       deadletter.ID   `json:"id"`
	Group    data            `json:"group"`
	Key      data            `json:"key,omitempty"`
	Source   data            `json:"source,omitempty"`
	Position data            `json:"position,omitempty"`
	Order    data            `json:"order,omitempty"`
	State    string          `json:"state"`
	Since    *time.Time      `json:"since,omitempty"`
	Reason   string          `json:"reason"`
	Attempts int             `json:"attempts"`
	First    *time.Time      `json:"first_failure,omitempty"`
	Last     *time.Time      `json:"last_failure,omitempty"`
	Kept     *time.Time      `json:"put_away,omitempty"`
	Redriven int             `json:"redriven"`
	Resolved string          `json:"resolved,omitempty"`
	Drive    string          `json:"redrive,omitempty"`
	By       data            `json:"by,omitempty"`
	Note     data            `json:"note,omitempty"`
	Failures []failureRecord `json:"failures"`
	Problem  string          `json:"problem,omitempty"` // why there are no contents, and the last failure alone
	*contents
}

// contents are what a list has not.
type contents struct {
	Headers []headerRecord `json:"headers"`
	Bytes   int            `json:"payload_bytes"`
	Hash    string         `json:"payload_sha256"`
	Payload *[]byte        `json:"payload,omitempty"` // base64
}

type failureRecord struct {
	At      *time.Time `json:"at,omitempty"`
	Took    float64    `json:"took_seconds"`
	Attempt int        `json:"attempt,omitempty"`
	Class   string     `json:"class,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Message data       `json:"message"`
}

type headerRecord struct {
	Name  data  `json:"name"`
	Bytes int   `json:"bytes"`
	Value *data `json:"value,omitempty"`
}

func recordOf(l *deadletter.Letter) record {
	r := record{
		Version: jsonVersion, ID: l.ID, Group: data(l.Group), Key: data(l.Key), Source: data(l.Source), Position: data(l.Position), Order: data(l.Order),
		State: l.State.String(), Since: moment(l.Since), Reason: l.Reason, Attempts: l.Attempts,
		First: moment(l.First), Last: moment(l.Last), Kept: moment(l.Kept), Redriven: l.Redriven,
		Drive: l.Drive, By: data(l.By), Note: data(l.Note), Failures: []failureRecord{},
	}
	if l.Resolved != deadletter.Unresolved {
		r.Resolved = l.Resolved.String()
	}
	for _, f := range l.Failures {
		r.Failures = append(r.Failures, failureRecord{moment(f.At), f.Took.Seconds(), f.Attempt, f.Class, f.Reason, data(f.Message)})
	}
	return r
}

// contentsOf are a letter's headers and payload. What is inside of them is there only if it was
// asked for.
func contentsOf(l *deadletter.Letter, values, payload bool) *contents {
	c := &contents{Headers: []headerRecord{}, Bytes: len(l.Payload), Hash: hashOf(l.Payload)}
	for _, h := range l.Headers {
		one := headerRecord{Name: data(h.Name), Bytes: len(h.Value)}
		if values {
			value := data(h.Value)
			one.Value = &value
		}
		c.Headers = append(c.Headers, one)
	}
	if payload {
		bytes := append([]byte{}, l.Payload...) // [] where nil would be null
		c.Payload = &bytes
	}
	return c
}

func hashOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
