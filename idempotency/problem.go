package idempotency

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A Problem is why the Handler refuses a request, in a response of
// application/problem+json (RFC 9457). The response's type is
// "urn:gabion:idempotency:" and the problem; it does not change. It is one of [Problems]:
//
//	missing                400: a key is required
//	malformed              400: the key can't be read, or there are two
//	key-expired            400: the key is older than answers are kept
//	body-unread            400: the request's body ended early
//	body-too-large         413: the request's body is over the limit
//	body-consumed          500: the request's body was read before the Handler
//	digest-malformed       400: the Content-Digest can't be read
//	digest-mismatch        400: the request's body is not what its Content-Digest says
//	mismatch               422: the key belongs to another request
//	in-progress            409 with Retry-After: the first run has not ended
//	response-not-retained  409: it was done, and its response is not kept
//	answer-broken          500: the answer broke off, and the next request runs
//	answer-too-large       500: under Tx, the answer is too large to be held back; nothing was done
//	outcome-unknown        409: it is not known whether it was done; 503 with Retry-After: ask again
//	store-unavailable      503 with Retry-After: nothing was done
//	record-unreadable      503: there is a record that this version can't read
//	no-scope               500: it is not known whose key it is
type Problem string

const (
	problemMissing          Problem = "missing"
	problemMalformed        Problem = "malformed"
	problemKeyExpired       Problem = "key-expired"
	problemBodyUnread       Problem = "body-unread"
	problemBodyTooLarge     Problem = "body-too-large"
	problemBodyConsumed     Problem = "body-consumed"
	problemDigestMalformed  Problem = "digest-malformed"
	problemDigestMismatch   Problem = "digest-mismatch"
	problemMismatch         Problem = "mismatch"
	problemInProgress       Problem = "in-progress"
	problemNotRetained      Problem = "response-not-retained"
	problemAnswerBroken     Problem = "answer-broken"
	problemAnswerTooLarge   Problem = "answer-too-large"
	problemUnknown          Problem = "outcome-unknown"
	problemStoreUnavailable Problem = "store-unavailable"
	problemRecordUnreadable Problem = "record-unreadable"
	problemNoScope          Problem = "no-scope"
)

// Problems returns all problems, in the order of their names.
func Problems() []Problem { return slices.Sorted(maps.Keys(problems)) }

// problems has what is the same in every answer of a kind.
var problems = map[Problem]struct {
	status int
	title  string
}{
	problemMissing:          {400, "An Idempotency-Key header is required"},
	problemMalformed:        {400, "The Idempotency-Key header can't be read"},
	problemKeyExpired:       {400, "The idempotency key is older than answers are kept"},
	problemBodyUnread:       {400, "The request's body could not be read"},
	problemBodyTooLarge:     {413, "The request's body is too large"},
	problemBodyConsumed:     {500, "The request's body was read before its idempotency key was checked"},
	problemDigestMalformed:  {400, "The Content-Digest header can't be read"},
	problemDigestMismatch:   {400, "The request's body is not what its Content-Digest says"},
	problemMismatch:         {422, "The idempotency key was used for a different request"},
	problemInProgress:       {409, "A request with this idempotency key is in progress"},
	problemNotRetained:      {409, "The request was carried out and its response was not kept"},
	problemAnswerBroken:     {500, "The answer broke off before its end and is not kept"},
	problemAnswerTooLarge:   {500, "The answer is too large for a transaction, and nothing was done"},
	problemUnknown:          {409, "It is unknown whether the request was carried out"},
	problemStoreUnavailable: {503, "Idempotency keys can't be checked"},
	problemRecordUnreadable: {503, "The record of this idempotency key can't be read"},
	problemNoScope:          {500, "The owner of the idempotency key is unknown"},
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
	status := cmp.Or(no.status, kind.status)
	body := problemBody{Type: problemType + string(no.problem), Title: kind.title, Status: status}
	if no.problem == problemNotRetained {
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
	if no.problem == problemBodyConsumed {
		h.tellConsumed(r.Context(), id)
	}
	h.tell(r.Context(), Event{Kind: eventRefused, ID: id, Problem: no.problem, Err: no.err})
}

func location(r Result) string {
	for _, f := range r.Header {
		if f.Name == "Location" {
			return f.Value
		}
	}
	return ""
}
