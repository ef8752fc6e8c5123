package past

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSpanLine is the longest line of spans: an exporter's batch is far shorter.
const maxSpanLine = 64 << 20

// The parts of OTLP JSON that a replay needs.
type (
	spanLine struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes attributes `json:"attributes"`
			} `json:"resource"`
			ScopeSpans []struct {
				Spans []span `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	span struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		Parent     string     `json:"parentSpanId"`
		Kind       any        `json:"kind"`
		Start      instant    `json:"startTimeUnixNano"`
		End        instant    `json:"endTimeUnixNano"`
		Attributes attributes `json:"attributes"`
		Status     struct {
			Code any `json:"code"`
		} `json:"status"`
	}
)

// instant is nanoseconds since 1970, as JSON writes large numbers: in quotes.
type instant int64

// UnmarshalJSON implements json.Unmarshaler.
func (i *instant) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%.40s is no time in nanoseconds", text)
	}
	*i = instant(n)
	return nil
}

// attributes are by their names.
type attributes map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (a *attributes) UnmarshalJSON(text []byte) error {
	var all []struct {
		Key   string
		Value map[string]any
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*a = make(attributes, len(all))
	for _, x := range all {
		for _, v := range x.Value {
			(*a)[x.Key] = fmt.Sprint(v)
		}
	}
	return nil
}

// first is the first of some attributes that is there: older conventions have other names.
func (a attributes) first(names ...string) string {
	for _, name := range names {
		if v := a[name]; v != "" {
			return v
		}
	}
	return ""
}

// spanID names a span in its trace.
type spanID struct{ trace, span string }

// spans collects those of one dependency.
type spans struct {
	tape
	o         Options
	ours      map[string]bool // dependencies of gabion's own spans
	others    map[string]bool // servers of other client spans
	instances lives
	calls     map[spanID]*spanCall
	tries     []spanTry
	plain     []spanTry // of other clients
}

type spanCall struct {
	call
	outcome string
}

type spanTry struct {
	id     spanID // of the call
	number int
	attempt
}

// readSpans reads lines of OTLP JSON, as the file exporter writes them.
func readSpans(in io.Reader, o Options) (*Past, error) {
	s := &spans{o: o, ours: map[string]bool{}, others: map[string]bool{}, instances: lives{}, calls: map[spanID]*spanCall{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 1<<20), maxSpanLine)
	n := 0
	for lines.Scan() {
		if n++; len(lines.Bytes()) == 0 {
			continue
		}
		var l spanLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: a line is one object with resourceSpans; jq -c . makes lines", o.Name, n, err)
		}
		for i := range l.ResourceSpans {
			r := &l.ResourceSpans[i]
			instance := r.Resource.Attributes.first("service.instance.id", "k8s.pod.name", "host.name") + " " + r.Resource.Attributes["process.pid"]
			for k := range r.ScopeSpans {
				for j := range r.ScopeSpans[k].Spans {
					if err := s.span(&r.ScopeSpans[k].Spans[j], instance); err != nil {
						return nil, fmt.Errorf("%s:%d: %w", o.Name, n, err)
					}
				}
			}
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%s:%d: the line is longer than %d MiB: export smaller batches", o.Name, n+1, maxSpanLine>>20)
	} else if err != nil {
		return nil, err
	}
	return s.made()
}

// span adds one span.
func (s *spans) span(v *span, instance string) error {
	of, ours := v.Attributes["gabion.dependency"], true
	if of == "" {
		of, ours = v.server(), false
	}
	if of == "" {
		return nil
	}
	if ours {
		s.ours[of] = true
	} else {
		s.others[of] = true
	}
	if s.o.Dependency != "" && of != s.o.Dependency || len(s.calls)+len(s.plain) > maxCalls {
		return nil // too many are reported at the end
	}
	if v.End < v.Start {
		return fmt.Errorf("span %.16s ends before it starts", v.SpanID)
	}
	took := int64(v.End - v.Start)
	a := spanTry{spanID{v.TraceID, v.Parent}, 1, attempt{int64(v.Start), observed{took: took, knows: met, status: 200}}}
	switch {
	case !ours:
		a.number, a.observed = v.other(took)
		s.plain = append(s.plain, a)
	case v.Attributes["gabion.outcome"] != "":
		s.calls[spanID{v.TraceID, v.SpanID}] = &spanCall{call{at: int64(v.Start), took: took}, v.Attributes["gabion.outcome"]}
	case v.Attributes["gabion.class"] != "":
		a.number, _ = strconv.Atoi(v.Attributes["gabion.attempt"])
		a.observed = observe(v.Attributes["gabion.class"], v.Attributes["gabion.code"], v.Attributes["gabion.effect"] == "none", took)
		s.tries = append(s.tries, a)
	default:
		return nil
	}
	s.instances.saw(instance, int64(v.Start), int64(v.End))
	return nil
}

// server is whom a span of a client calls; "" if it is not a client's.
func (v *span) server() string {
	kind := fmt.Sprint(v.Kind)
	if kind != "3" && kind != "SPAN_KIND_CLIENT" || v.Attributes.first("http.request.method", "http.method") == "" {
		return ""
	}
	return v.Attributes.first("peer.service", "server.address", "net.peer.name", "http.host")
}

// other is what a request of another client met, and which try it was, from 1.
func (v *span) other(took int64) (number int, o observed) {
	again, _ := strconv.Atoi(v.Attributes.first("http.request.resend_count", "http.resend_count"))
	number, o = again+1, observed{took: took, knows: met, status: 200}
	status, err := strconv.Atoi(v.Attributes.first("http.response.status_code", "http.status_code"))
	why := strings.ToLower(v.Attributes["error.type"])
	code := fmt.Sprint(v.Status.Code)
	switch {
	case err == nil && status >= 100 && status <= 599:
		if o.status = status; status < 500 && status != 429 {
			o.status = 200 // an answer, if a no
		}
	case code != "2" && code != "STATUS_CODE_ERROR" && why == "":
	case strings.Contains(why, "refused"):
		o.status = Refused
	case strings.Contains(why, "timeout"), strings.Contains(why, "deadline"):
		o.knows = cut
	case strings.Contains(why, "cancel"):
		o.knows = lost
	default:
		o.status = 0
	}
	return number, o
}

// made puts calls and attempts together.
func (s *spans) made() (*Past, error) {
	all := s.ours
	if len(all) == 0 || s.o.Dependency != "" && !all[s.o.Dependency] {
		all = s.others
		s.byRequest()
		s.Notes = append(s.Notes, "spans of HTTP clients show requests: a call that was refused without one, as by a breaker, is not there, neither in what happened nor in the load")
	}
	if !all[s.o.Dependency] && s.o.Dependency != "" {
		maps.Copy(all, s.ours) // for the message
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no spans of gabion's, nor of an HTTP client: spans of clients have the kind 3 and http.request.method", s.o.Name)
	}
	name, err := s.o.choose(slices.Sorted(maps.Keys(all)))
	if err != nil {
		return nil, err
	}
	s.Kind, s.Dependency = "spans", name
	begin, end := int64(-1), int64(0)
	for _, c := range s.calls {
		if begin < 0 || c.at < begin {
			begin = c.at
		}
		end = max(end, c.at+c.took)
	}
	if len(s.calls) == 0 {
		return nil, s.o.none(name)
	}
	s.Clients = s.instances.atOnce(begin, end)
	if len(s.calls) > maxCalls {
		return nil, fmt.Errorf("%s: there are more than %d calls, as many as a scenario takes: cut the file, or sample fewer processes as a whole", s.o.Name, maxCalls)
	}
	s.Begin = time.Unix(0, begin)
	if err := s.window(s.o, begin); err != nil {
		return nil, err
	}
	for _, a := range s.tries {
		s.settled(a.attempt)
		c := s.calls[a.id]
		if c == nil {
			continue
		}
		if a.number == 1 {
			c.own = a.observed
		}
		s.Repeated = s.Repeated || a.number > 1
	}
	for _, c := range s.calls {
		switch c.outcome {
		case "ok", "not_retryable":
			c.how = answered
		case "canceled":
			c.how = left
		default:
			c.how = failed
		}
		if err := s.ended(c.call); err != nil {
			return nil, fmt.Errorf("%s: %w", s.o.Name, err)
		}
	}
	if len(s.tape.calls) == 0 {
		return nil, s.o.none(name)
	}
	return s.develop(), nil
}

// byRequest makes calls of requests: each that is no repetition begins one, and those below the
// same span that are belong to it.
func (s *spans) byRequest() {
	slices.SortStableFunc(s.plain, func(a, b spanTry) int { return int(min(max(a.at-b.at, -1), 1)) })
	latest := map[spanID]spanID{} // by what they are below
	for i := range s.plain {
		a := &s.plain[i]
		above := a.id
		id, again := latest[above]
		if !again || a.number == 1 || above.span == "" {
			id = spanID{above.trace, "request " + strconv.Itoa(i)}
			latest[above] = id
			s.calls[id] = &spanCall{call: call{at: a.at}}
			a.number = 1
		}
		c := s.calls[id]
		c.took = max(c.took, a.at+a.took-c.at)
		switch {
		case a.knows == lost:
			c.outcome = "canceled"
		case a.knows == met && a.status == 200:
			c.outcome = "ok"
		default:
			c.outcome = "failed"
		}
		a.id = id
	}
	s.tries = s.plain
}
