// Package letterpage shows a store of dead letters on the live page, in a tab of its own: counts by group and
// reason, redrives, and letters with their failures, never payloads or the values of headers.
//
//	page := dashboard.New(dashboard.Config{Registry: registry, Letters: letterpage.New(store)})
package letterpage

import (
	"context"
	_ "embed"
	"encoding/json"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// New returns the tab of a store, for [dashboard.Config]. It asks the store only for those who look, at most four
// questions at once and for two seconds each; an act has ten seconds. A store that is slow, down or panics is a line
// on the page. It is safe for concurrent use.
//
// A viewer's acts are recorded as "page, " and the address of the request. The page checks who may act: do not
// serve the tab without it.
func New(store deadletter.Store) dashboard.Letters { return newLetterbox(store) }

func newLetterbox(store deadletter.Store) *letterbox {
	return &letterbox{store: store, busy: make(chan struct{}, letterQuestions), was: map[string][]putCount{}}
}

//go:embed table.html
var tableText string

var table = template.Must(template.New("table").Funcs(template.FuncMap{
	"spoken": func(word string) string { return strings.ReplaceAll(word, "_", " ") },
	"date":   func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05") + " UTC" },
}).Parse(tableText))

// Table returns the list for a viewer without script.
func (b *letterbox) Table(ctx context.Context, query url.Values) template.HTML {
	var text strings.Builder
	if err := table.Execute(&text, b.look(ctx, query)); err != nil {
		return template.HTML(template.HTMLEscapeString(err.Error())) //nolint:gosec // it is escaped
	}
	return template.HTML(text.String()) //nolint:gosec // a template of html/template has escaped it
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client has gone
}

// by is who acts, as the letter says.
func by(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	return "page, " + remote
}

// letters is a number of letters in words.
func letters(n int) string {
	if n == 1 {
		return "1 letter"
	}
	return strconv.Itoa(n) + " letters"
}
