package idempotency

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// A Problem is a way in which the Handler refuses, in a response of
// application/problem+json (RFC 9457). Its type is "urn:gabion:idempotency:" and
// the problem; it does not change.
type Problem string

const (
	Missing          Problem = "missing"               // 400: the key is required
	Malformed        Problem = "malformed"             // 400: the key can't be read, or there are two
	KeyExpired       Problem = "key-expired"           // 400: the key is older than answers are kept
	Unread           Problem = "body-unread"           // 400: the request's body ended early
	BodyTooLarge     Problem = "body-too-large"        // 413: the request's body is over the limit
	BodyConsumed     Problem = "body-consumed"         // 500: somebody read the request's body before the Handler
	DigestMalformed  Problem = "digest-malformed"      // 400: the Content-Digest can't be read
	DigestMismatched Problem = "digest-mismatch"       // 400: the request's body is not what its Content-Digest says
	Mismatched       Problem = "mismatch"              // 422: the key belongs to another request
	StillRunning     Problem = "in-progress"           // 409 with Retry-After: the first run has not ended
	NotRetained      Problem = "response-not-retained" // 409: it was done, its response is not kept
	BrokenAnswer     Problem = "answer-broken"         // 500: the answer broke off, and the next request runs
	AnswerTooLarge   Problem = "answer-too-large"      // 500: under Tx, the answer is larger than can be held back: rolled back
	OutcomeIsUnknown Problem = "outcome-unknown"       // 409: it may have been done; 503 with Retry-After: ask again
	StoreUnavailable Problem = "store-unavailable"     // 503 with Retry-After: nothing was done
	RecordUnreadable Problem = "record-unreadable"     // 503: there is a record that this version can't read
	NoScope          Problem = "no-scope"              // 500: the request's owner is not known
)

// problems has what is the same in every answer of a kind.
var problems = map[Problem]struct {
	status int
	title  string
}{
	Missing:          {400, "An Idempotency-Key header is required"},
	Malformed:        {400, "The Idempotency-Key header can't be read"},
	KeyExpired:       {400, "The idempotency key is older than answers are kept"},
	Unread:           {400, "The request's body could not be read"},
	BodyTooLarge:     {413, "The request's body is too large"},
	BodyConsumed:     {500, "The request's body was read before its idempotency key was checked"},
	DigestMalformed:  {400, "The Content-Digest header can't be read"},
	DigestMismatched: {400, "The request's body is not what its Content-Digest says"},
	Mismatched:       {422, "The idempotency key was used for a different request"},
	StillRunning:     {409, "A request with this idempotency key is in progress"},
	NotRetained:      {409, "The request was carried out and its response was not kept"},
	BrokenAnswer:     {500, "The answer broke off before its end and is not kept"},
	AnswerTooLarge:   {500, "The answer is too large for a transaction, and nothing was done"},
	OutcomeIsUnknown: {409, "It is unknown whether the request was carried out"},
	StoreUnavailable: {503, "Idempotency keys can't be checked"},
	RecordUnreadable: {503, "The record of this idempotency key can't be read"},
	NoScope:          {500, "The owner of the idempotency key is unknown"},
}

// A refusal is a problem with what differs between answers of its kind.
type refusal struct {
	problem    Problem
	status     int           // instead of the problem's own
	retryAfter time.Duration // sent in whole seconds if positive
	original   Result        // with NotRetained
	err        error
}

type problemBody struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Original int    `json:"original_status,omitempty"`
	Location string `json:"location,omitempty"`
}

const problemType = "urn:gabion:idempotency:"

func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, id ID, no refusal) {
	kind := problems[no.problem]
	status := or(no.status, kind.status)
	body := problemBody{Type: problemType + string(no.problem), Title: kind.title, Status: status}
	if no.problem == NotRetained {
		body.Original, body.Location = no.original.Status, location(no.original)
	}
	text, _ := json.Marshal(body) // it is made of strings and numbers
	head := w.Header()
	head["Content-Type"] = []string{"application/problem+json"}
	head["Cache-Control"] = []string{"no-store"}
	head["Link"] = append(head["Link"], "<"+h.config.Docs+"#"+string(no.problem)+`>; rel="describedby"`)
	if no.retryAfter > 0 {
		seconds := int64((no.retryAfter + time.Second - 1) / time.Second)
		head["Retry-After"] = []string{strconv.FormatInt(seconds, 10)}
	}
	w.WriteHeader(status)
	w.Write(text)
	if no.problem == BodyConsumed {
		h.tellConsumed(r.Context(), id)
	}
	h.tell(r.Context(), Notice{Signal: Refused, ID: id, Problem: no.problem, Err: no.err})
}

func location(r Result) string {
	for _, f := range r.Header {
		if f.Name == "Location" {
			return f.Value
		}
	}
	return ""
}
