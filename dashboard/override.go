package dashboard

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gabion-go/gabion"
)

// An override is a viewer's request to override a dependency.
type override struct {
	Dependency string  `json:"dependency"`
	Partition  *string `json:"partition"` // nil means all breakers that it has
	Action     string  `json:"action"`
	Minutes    int     `json:"minutes"` // until it ends by itself
}

// lasting are the times for which an override may hold, in minutes: every one has an end, since
// one that was forgotten is the next outage.
var lasting = []int{1, 5, 15, 60}

// ends reports whether the action is one that ends by itself.
var ends = map[string]bool{"force_open": true, "disable": true, "observe_only": true, "retries_off": true, "reset": false, "retries_on": false}

const maxOverride = 16 << 10 // bytes of a request; names are short

// A verdict answers a viewer's request.
type verdict struct {
	Done  bool   `json:"done"`
	Text  string `json:"text"`
	Until int64  `json:"until,omitempty"`
}

// serveOverride carries out an override if overrides are allowed.
func (p *Page) serveOverride(w http.ResponseWriter, r *http.Request) {
	status, why := p.admits(r)
	if status != http.StatusOK {
		answer(w, status, verdict{Text: why})
		return
	}
	o, err := readOverride(r)
	if err != nil {
		answer(w, http.StatusBadRequest, verdict{Text: err.Error()})
		return
	}
	d := p.dependency(o.Dependency)
	if d == nil {
		answer(w, http.StatusNotFound, verdict{Text: "This page knows no dependency of that name."})
		return
	}
	n, err := o.apply(d, r.RemoteAddr)
	if err != nil {
		answer(w, http.StatusConflict, verdict{Text: err.Error()})
		return
	}
	v := verdict{Done: true, Text: fmt.Sprintf("%s: %s", spoken(o.Action), plural(int64(n), "breaker", "breakers"))}
	if ends[o.Action] {
		v.Until = time.Now().Add(o.lasts()).UnixMilli()
	}
	answer(w, http.StatusOK, v)
}

// admits says whether a request may override something.
func (p *Page) admits(r *http.Request) (status int, why string) {
	if !p.config.AllowOverrides {
		return http.StatusForbidden, "This page is read-only."
	}
	return sameOrigin(r)
}

// sameOrigin says whether a request comes from this very page. A browser sends Origin with every
// POST, and no site can forge it, so one without it is refused.
func sameOrigin(r *http.Request) (status int, why string) {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	origin, err := url.Parse(r.Header.Get("Origin"))
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case err != nil || origin.Host == "" || origin.Host != r.Host || len(r.Header.Values("Origin")) != 1:
		return http.StatusForbidden, "The request does not come from this page: its Origin is another than its Host, or missing."
	case site != "" && site != "same-origin":
		return http.StatusForbidden, "The request comes from another site."
	case media != "application/json":
		return http.StatusUnsupportedMediaType, "The request must be application/json."
	}
	return http.StatusOK, ""
}

func readOverride(r *http.Request) (o override, err error) {
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxOverride))
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, fmt.Errorf("the request is no JSON object of this kind: %w", err)
	}
	if _, known := ends[o.Action]; !known {
		return o, fmt.Errorf("there is no action %q", o.Action)
	}
	if ends[o.Action] && !slices.Contains(lasting, o.Minutes) {
		return o, fmt.Errorf("minutes must be one of %v", lasting)
	}
	return o, nil
}

func (o *override) lasts() time.Duration { return time.Duration(o.Minutes) * time.Minute }

// apply does it, and says for how many breakers.
func (o *override) apply(d *gabion.Dependency, remote string) (n int, err error) {
	who := by(remote)
	switch o.Action {
	case "retries_off":
		d.Retries().By(who).Stop(o.lasts())
		return 0, nil
	case "retries_on":
		d.Retries().By(who).Resume()
		return 0, nil
	}
	names := []string{""}
	if o.Partition != nil {
		names[0] = *o.Partition
	} else {
		for _, one := range d.Stats().Partitions {
			names = append(names, one.Name)
		}
	}
	for _, name := range names {
		b, ok := d.Breaker(name)
		if !ok {
			continue
		}
		n++
		switch b = b.By(who); o.Action {
		case "force_open":
			b.ForceOpen(o.lasts())
		case "disable":
			b.Disable(o.lasts())
		case "observe_only":
			b.ObserveOnly(o.lasts())
		case "reset":
			b.Reset()
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("%s has no such breaker", o.Dependency)
	}
	return n, nil
}

// by is who made an override, as its event says.
func by(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	return "page, " + remote
}
