package letterpage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// lettersVersion is that of the JSON about dead letters.
const lettersVersion = 1

// A letterView is what the tab of dead letters shows.
type letterView struct {
	Version int    `json:"version"`
	At      int64  `json:"at"`
	Problem string `json:"problem,omitempty"` // why the rest is missing
	letterStock
	Letters []letterLine `json:"letters"`
	Next    string       `json:"next,omitempty"`
}

// lettersQuery is the part of the letters that a request asks for.
func lettersQuery(v url.Values) (q deadletter.Query, from string) {
	q = deadletter.Query{Group: v.Get("group"), Reason: v.Get("reason"), States: []deadletter.State{deadletter.Waiting, deadletter.Taken}}
	return q, v.Get("from")
}

// lookAtLetters asks the store for what the tab shows.
func (b *letterbox) look(ctx context.Context, query url.Values) letterView {
	q, from := lettersQuery(query)
	v := letterView{Version: lettersVersion, Letters: []letterLine{}, letterStock: letterStock{Groups: []letterGroup{}, Drives: []letterDrive{}}}
	stock, err := b.count(ctx)
	if err == nil {
		v.letterStock = *stock
		var page deadletter.Page
		page, err = asked(ctx, b, letterTime, func(ctx context.Context) (deadletter.Page, error) {
			return b.store.List(ctx, q, from, letterPage)
		})
		v.Next = page.Next
		for i := range page.Letters {
			v.Letters = append(v.Letters, lineOf(&page.Letters[i]))
		}
	}
	if err != nil {
		v.Problem = letterProblem(err)
	}
	v.At = time.Now().UnixMilli()
	return v
}

// letterProblem is an error as the page shows it.
func letterProblem(err error) string {
	if errors.Is(err, errLettersSlow) {
		return "The store of dead letters does not answer in time."
	}
	return "The store of dead letters says: " + letterCut(err.Error())
}

// List serves counts by group, redrives and a page of letters.
func (b *letterbox) List(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, b.look(r.Context(), r.URL.Query()))
}

// A letterDetail is one letter without what is in it.
type letterDetail struct {
	letterLine
	Position string          `json:"position,omitempty"`
	Order    string          `json:"order,omitempty"`
	Since    int64           `json:"since"`
	Redriven int             `json:"redriven"`
	Drive    string          `json:"redrive,omitempty"`
	By       string          `json:"by,omitempty"`
	Note     string          `json:"note,omitempty"`
	Headers  []string        `json:"headers"` // their names
	Bytes    int             `json:"payload_bytes"`
	Hash     string          `json:"payload_sha256,omitempty"`
	Sealed   bool            `json:"sealed,omitempty"` // this process has no key: of the payload nothing is known, and of the failures the last
	Failures []letterFailure `json:"failures"`
}

type letterFailure struct {
	At      int64   `json:"at"`
	Took    float64 `json:"took_ms"`
	Attempt int     `json:"attempt,omitempty"`
	Class   string  `json:"class,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Message string  `json:"message"`
}

func detailOf(l *deadletter.Letter) letterDetail {
	sum := sha256.Sum256(l.Payload)
	d := letterDetail{
		letterLine: lineOf(l), Position: letterCut(l.Position), Order: letterCut(l.Order), Since: milliseconds(l.Since), Redriven: l.Redriven,
		Drive: letterCut(l.Drive), By: letterCut(l.By), Note: letterCut(l.Note), Headers: []string{}, Bytes: len(l.Payload), Hash: hex.EncodeToString(sum[:]), Failures: []letterFailure{},
	}
	for _, h := range l.Headers[:min(len(l.Headers), letterPage)] {
		d.Headers = append(d.Headers, letterCut(h.Name))
	}
	for _, f := range l.Failures[:min(len(l.Failures), letterPage)] {
		d.Failures = append(d.Failures, letterFailure{
			milliseconds(f.At), float64(f.Took) / float64(time.Millisecond), f.Attempt, letterCut(f.Class), letterCut(f.Reason), letterCut(f.Message),
		})
	}
	return d
}

// Letter serves one letter.
func (b *letterbox) Letter(w http.ResponseWriter, r *http.Request) {
	id := deadletter.ID(r.URL.Query().Get("id"))
	d, err := asked(r.Context(), b, letterTime, func(ctx context.Context) (letterDetail, error) { return letterOf(ctx, b.store, id) })
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		http.Error(w, "There is no such letter.", http.StatusNotFound)
	case err != nil:
		http.Error(w, letterProblem(err), http.StatusServiceUnavailable)
	default:
		answer(w, http.StatusOK, d)
	}
}

// letterOf reads one letter. Of one that is sealed, and not for this process, it reads what a
// list has of it.
func letterOf(ctx context.Context, store deadletter.Store, id deadletter.ID) (letterDetail, error) {
	l, err := store.Get(ctx, id)
	if err == nil {
		return detailOf(&l), nil
	}
	if !errors.Is(err, deadletter.ErrSealed) {
		return letterDetail{}, err
	}
	if l, err = bareLetter(ctx, store, id); err != nil {
		return letterDetail{}, err
	}
	d := detailOf(&l)
	d.Sealed, d.Hash = true, ""
	return d, nil
}

// bareLetter finds a letter without what is in it.
func bareLetter(ctx context.Context, store deadletter.Store, id deadletter.ID) (deadletter.Letter, error) {
	page, err := store.List(ctx, deadletter.Query{IDs: []deadletter.ID{id}, States: []deadletter.State{
		deadletter.Waiting, deadletter.Taken, deadletter.Done, deadletter.Dropped,
	}}, "", 1)
	if err == nil && len(page.Letters) == 0 {
		err = deadletter.ErrNotFound
	}
	if err != nil {
		return deadletter.Letter{}, err
	}
	return page.Letters[0], nil
}

// A letterAct is a viewer's request to change letters.
type letterAct struct {
	Action string        `json:"action"` // redrive, stop, resolve or drop
	ID     deadletter.ID `json:"id"`
	Group  string        `json:"group"`
	Reason string        `json:"reason"`
	Rate   float64       `json:"rate"` // letters a second
	Drive  string        `json:"redrive"`
	As     string        `json:"as"` // done or nothing
	Note   string        `json:"note"`
}

const (
	maxLetterRate = 10_000   // letters a second; more is a slip
	maxAct        = 16 << 10 // bytes of a request
)

func readLetterAct(r *http.Request) (a letterAct, err error) {
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxAct))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("the request is no JSON object of this kind: %w", err)
	}
	a.Note = strings.TrimSpace(a.Note)
	switch {
	case a.Action == "redrive" && (a.ID == "") == (a.Group == ""):
		return a, errors.New("a redrive is of one group, or of one letter")
	case a.Action == "redrive" && !(a.Rate > 0 && a.Rate <= maxLetterRate):
		return a, fmt.Errorf("the rate is more than zero letters a second, and at most %d", maxLetterRate)
	case a.Action == "resolve" && a.As != "done" && a.As != "nothing":
		return a, errors.New("the work is resolved as done, or as nothing")
	case (a.Action == "resolve" || a.Action == "drop") && (a.ID == "" || a.Note == ""):
		return a, errors.New("that takes a letter, and a note that says why")
	case a.Action == "stop" && a.Drive == "":
		return a, errors.New("which redrive?")
	case a.Action != "redrive" && a.Action != "resolve" && a.Action != "drop" && a.Action != "stop":
		return a, fmt.Errorf("there is no action %q", a.Action)
	}
	return a, nil
}

// Act carries out a letterAct.
func (b *letterbox) Act(w http.ResponseWriter, r *http.Request) {
	type verdict struct {
		Done bool   `json:"done"`
		Text string `json:"text"`
	}
	a, err := readLetterAct(r)
	if err != nil {
		answer(w, http.StatusBadRequest, verdict{Text: err.Error()})
		return
	}
	// A viewer who closes the browser in the middle has still asked for it.
	text, err := asked(context.WithoutCancel(r.Context()), b, letterActTime, func(ctx context.Context) (string, error) {
		return a.do(ctx, b.store, by(r.RemoteAddr))
	})
	b.forget()
	switch {
	case err == nil:
		answer(w, http.StatusOK, verdict{true, text})
	case errors.Is(err, deadletter.ErrNotFound):
		answer(w, http.StatusNotFound, verdict{Text: "There is no such letter or redrive."})
	case errors.Is(err, deadletter.ErrState), errors.Is(err, deadletter.ErrUnresolved), errors.Is(err, deadletter.ErrBusy):
		answer(w, http.StatusConflict, verdict{Text: letterCut(err.Error())})
	default:
		answer(w, http.StatusServiceUnavailable, verdict{Text: letterProblem(err) + " It may have been done all the same: look again."})
	}
}

// do does it, and says what it did.
func (a *letterAct) do(ctx context.Context, store deadletter.Store, who string) (string, error) {
	switch a.Action {
	case "redrive":
		return a.order(ctx, store, who)
	case "stop":
		why := a.Note
		if why == "" {
			why = "stopped on the page"
		}
		return "The redrive is stopped.", store.Stop(ctx, a.Drive, who, why)
	case "resolve":
		if a.As == "done" {
			return "The letter is done.", store.Resolve(ctx, a.ID, deadletter.ResolvedAsDone, who, a.Note)
		}
		return "The letter may run again.", store.Resolve(ctx, a.ID, deadletter.ResolvedAsFailed, who, a.Note)
	}
	return "The letter is dropped.", store.Drop(ctx, a.ID, who, a.Note)
}

func (a *letterAct) order(ctx context.Context, store deadletter.Store, who string) (string, error) {
	q := deadletter.Query{Group: a.Group, Reason: a.Reason}
	if a.ID != "" {
		l, err := bareLetter(ctx, store, a.ID)
		if err != nil {
			return "", err
		}
		q = deadletter.Query{Group: l.Group, IDs: []deadletter.ID{a.ID}}
	}
	d, err := store.Order(ctx, q, deadletter.Drive{Group: q.Group, Rate: a.Rate, By: who})
	if err != nil {
		return "", err
	}
	if d.Total == 0 {
		return "", fmt.Errorf("%w: no letter that is meant waits and may run", deadletter.ErrState)
	}
	text := fmt.Sprintf("%s will run, in about %s.", letters(d.Total), time.Duration(math.Ceil(float64(d.Total)/a.Rate))*time.Second)
	all, err := store.Count(ctx, q)
	if err != nil {
		return text, nil //nolint:nilerr // it is ordered all the same
	}
	left := 0
	for _, some := range all {
		if some.Unresolved {
			left += some.Letters
		}
	}
	if left > 0 {
		text += fmt.Sprintf(" Left out: %s whose outcome is unknown.", letters(left))
	}
	return text, nil
}
