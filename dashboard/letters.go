package dashboard

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
)

// Letters is the page's tab of dead letters. Package letterpage of the module
// github.com/gabion-go/gabion/messages makes one from a store. Its methods are called by requests, at the same time.
type Letters interface {
	// List answers api/v1/letters with JSON: counts by group, redrives, and the letters that the query asks for.
	List(w http.ResponseWriter, r *http.Request)
	// Letter answers api/v1/letter with JSON: one letter.
	Letter(w http.ResponseWriter, r *http.Request)
	// Act answers api/v1/letter-act. The page calls it only if it allows overrides and the request comes from the
	// page itself.
	Act(w http.ResponseWriter, r *http.Request)
	// Table returns the list as HTML, for a viewer without script whose request has that query.
	Table(ctx context.Context, query url.Values) template.HTML
}

// noLetters is what a page without Letters says.
const noLetters = "This page has no store of dead letters."

// ofLetters returns a handler that asks the page's Letters.
func (p *Page) ofLetters(ask func(Letters, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p.config.Letters == nil {
			http.Error(w, noLetters, http.StatusNotFound)
			return
		}
		ask(p.config.Letters, w, r)
	}
}

// serveLetterAct passes an act on if overrides are allowed.
func (p *Page) serveLetterAct(w http.ResponseWriter, r *http.Request) {
	status, why := p.admits(r)
	if status == http.StatusOK && p.config.Letters == nil {
		status, why = http.StatusNotFound, noLetters
	}
	if status != http.StatusOK {
		answer(w, status, verdict{Text: why})
		return
	}
	p.config.Letters.Act(w, r)
}
