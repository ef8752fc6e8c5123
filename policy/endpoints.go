package policy

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
)

// Endpoints are several ways to one dependency, each with a breaker of its own. An attempt goes
// to one that works, and the next one elsewhere, if the work may be done there: see SharedKeys.
type Endpoints struct {
	// List are the endpoints, at most 64. Files write each as a name, a URL, or name=URL. Zero
	// means none: the dependency has one way, which its caller knows.
	List []Endpoint

	// Mode says whether the endpoints are equal, or come in an order of preference. Zero means
	// EndpointsEqual.
	Mode EndpointMode

	// Standing is the share of first attempts that go to a backup though the one before it
	// works, so that it is known to work before it is needed: of work that may be repeated
	// elsewhere. Zero means 1 %; Off means none. Of EndpointsOrdered only.
	Standing Ratio

	// Ejected is the share of equal endpoints that may be left out at once because they don't work,
	// rounded down, but one in any case. Where none works, none is left out. Zero means 50 %; Off
	// means that none is left out.
	Ejected Ratio

	// SlowStart is how long an endpoint that works again, or is new, takes until it has its whole
	// share of the attempts, beginning with a tenth. Zero means 10 s, or 2 s where the
	// endpoints are ordered; Off means that it has it at once.
	SlowStart time.Duration

	// SharedKeys declares that the endpoints know each other's idempotency keys. Zero means that they don't:
	// once an attempt of a call with a key may have happened at one endpoint, the call goes
	// to no other.
	SharedKeys bool
}

// Endpoint is one way to a dependency.
type Endpoint struct {
	Name string // what events and the page say; at most 128 bytes
	URL  string // where HTTP requests go: scheme, host, and a path before theirs; empty means that the work knows
}

// EndpointMode says how endpoints relate to each other.
type EndpointMode uint8

// How endpoints can relate.
const (
	EndpointsEqual   EndpointMode = iota // replicas or regions: the load is shared out
	EndpointsOrdered                     // a primary first, and backups after it
)

var modeText = []string{EndpointsEqual: "equal", EndpointsOrdered: "ordered"}

// String returns the word that files use.
func (m EndpointMode) String() string { return word(modeText, m) }

// MarshalText returns the word that files use, and an error for an unknown value.
func (m EndpointMode) MarshalText() ([]byte, error) { return marshalWord(modeText, m) }

// UnmarshalText reads "equal" or "ordered"; on an error m stays as it was.
func (m *EndpointMode) UnmarshalText(text []byte) error { return unmarshalWord(modeText, m, text) }

var endpointName = regexp.MustCompile(`^[A-Za-z0-9\[][A-Za-z0-9._:\[\]-]{0,127}$`)

// String returns the endpoint as files write it.
func (e Endpoint) String() string {
	switch {
	case e.URL == "":
		return e.Name
	case e.Name == nameOf(e.URL):
		return e.URL
	}
	return e.Name + "=" + e.URL
}

// MarshalText returns the endpoint as files write it.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a name, a URL, or name=URL. One without a name has that of its host. On an error e
// stays as it was.
func (e *Endpoint) UnmarshalText(text []byte) error {
	var read Endpoint
	s := string(text)
	switch at, scheme := strings.IndexByte(s, '='), strings.Index(s, "://"); {
	case at >= 0 && (scheme < 0 || at < scheme):
		read = Endpoint{s[:at], s[at+1:]}
		if read.URL == "" {
			return textError(s, "has no URL after its name", "write "+read.Name+", or "+read.Name+"=https://…")
		}
	case scheme >= 0:
		read = Endpoint{nameOf(s), s}
	default:
		read.Name = s
	}
	if problem, proposal := read.wrong(); problem != "" {
		return textError(withoutUser(s), problem, proposal)
	}
	*e = read
	return nil
}

// nameOf is the name of an endpoint that has only a URL.
func nameOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

const exampleURL = "write one such as https://eu.example.com/v1"

// wrong says what is wrong with an endpoint by itself.
func (e Endpoint) wrong() (problem, proposal string) {
	u, err := url.Parse(e.URL)
	switch {
	case e.URL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https"):
		return "is no URL of http or https with a host", exampleURL
	case u != nil && u.User != nil:
		return "has a user or a password in its URL", "give them with each request"
	case u != nil && (u.RawQuery != "" || u.Fragment != "" || u.ForceQuery):
		return "has more than a path after its host", exampleURL
	case u != nil && (strings.Contains(u.Path, "//") || slices.ContainsFunc(strings.Split(u.Path, "/"), dots)):
		return "has an empty, . or .. part in its path", exampleURL
	case !endpointName.MatchString(e.Name):
		return "is no name of an endpoint", "write letters, digits, dots, colons, dashes and underscores, at most 128"
	}
	return "", ""
}

func dots(part string) bool { return part == "." || part == ".." }

// same is what two endpoints must not have in common.
func (e Endpoint) same() string {
	u, err := url.Parse(e.URL)
	if err != nil || e.URL == "" {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	host = strings.TrimSuffix(host, ".")
	return u.Scheme + "://" + host + strings.TrimSuffix(u.EscapedPath(), "/")
}

func checkEndpoints(c *check, e Endpoints) {
	const path = "endpoints.list"
	if len(e.List) > terms.MaxEndpoints {
		c.add(path, "", fmt.Sprintf("%d endpoints", len(e.List)), "are too many", fmt.Sprintf("write at most %d", terms.MaxEndpoints))
		return
	}
	names, addresses := map[string]bool{}, map[string]bool{}
	for i, one := range e.List {
		same := one.same()
		switch problem, proposal := one.wrong(); {
		case problem != "":
			addItem(c, path, i, quoteShort(one.String()), problem, proposal)
		case names[one.Name]:
			addItem(c, path, i, quoteShort(one.Name), "is there twice", "give each endpoint a name of its own")
		case same != "" && addresses[same]:
			addItem(c, path, i, quoteShort(one.URL), "is there twice", "name each URL once: two endpoints at one place fail together")
		}
		names[one.Name], addresses[same] = true, true
	}
	c.enum("endpoints.mode", uint8(e.Mode), len(modeText), strings.Join(modeText, ", "))
	c.ratio("endpoints.standing", e.Standing, 0.5, offFine)
	c.ratio("endpoints.ejected", e.Ejected, 1, offFine)
	c.duration("endpoints.slow_start", e.SlowStart, time.Millisecond, time.Hour, offFine)
}

func quoteShort(s string) string { return fmt.Sprintf("%.100q", withoutUser(s)) }

// withoutUser hides user and password in what may be a URL: errors go to logs.
func withoutUser(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	authority, _, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		return scheme + "://xxxxx" + rest[at:]
	}
	return s
}

const (
	defaultStanding  = Ratio(0.01)
	defaultEjected   = Ratio(0.5)
	defaultSlowStart = 10 * time.Second
	defaultReturn    = 2 * time.Second // to a primary: its backup is the worse of the two
)

func (e Endpoints) resolved() Endpoints {
	e.Standing = or(e.Standing, defaultStanding)
	e.Ejected = or(e.Ejected, defaultEjected)
	if e.Mode == EndpointsOrdered {
		e.SlowStart = or(e.SlowStart, defaultReturn)
	}
	e.SlowStart = or(e.SlowStart, defaultSlowStart)
	return e
}
