package pagecmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fetch"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetview"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/internal/fleetlook"
	"github.com/gabion-go/gabion/policy"
)

// The bounds of a page of processes that are asked one by one.
const (
	mostPages  = 200
	atOnce     = 16
	patience   = 5 * time.Second
	mostAnswer = 8 << 20 // bytes of one answer
)

// pod is a process that is asked by its own page.
type pod struct {
	id, ask string
}

// pods reads the addresses of pages.
func pods(list string) ([]pod, error) {
	var all []pod
	hosts := map[string]int{}
	for one := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.HasSuffix(u.Path, "/") {
			return nil, errors.New("--of wants addresses of pages, with commas in between: each begins with http:// or https:// and ends in a slash")
		}
		id, address := u.Host, u.JoinPath("api/v1/measured").String()
		if hosts[u.Host]++; hosts[u.Host] > 1 {
			id += u.Path
		}
		if slices.ContainsFunc(all, func(p pod) bool { return p.ask == address || p.id == id }) {
			return nil, fmt.Errorf("--of names %s twice", id)
		}
		all = append(all, pod{id, address})
	}
	if len(all) > mostPages {
		return nil, fmt.Errorf("--of names %d pages, and %d at most can be asked: use --store", len(all), mostPages)
	}
	return all, nil
}

// collect serves one page of processes that have no store.
func (r *request) collect(ctx context.Context) int {
	all, err := pods(r.of)
	if err != nil {
		return r.wrongly(err.Error())
	}
	if err := r.serve(ctx, fleetHandler(ofPods(all))); err != nil {
		return r.failed(cli.ExitFailure, err)
	}
	return cli.ExitOK
}

func ofPods(all []pod) func(context.Context) seen {
	return func(ctx context.Context) seen {
		v := &fleetlook.View{Now: time.Now()}
		v.Members, v.Unread = ask(ctx, all)
		return seen{Asked: len(all), View: v, Sum: fleetview.Of(v)}
	}
}

// ask asks the pages, and says which do not answer.
func ask(ctx context.Context, all []pod) (members []fleetlook.Member, silent []string) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	answers, problems := make([]fleetlook.Member, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for i := range all {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			answers[i], problems[i] = all[i].look(ctx)
		})
	}
	wg.Wait()
	for i := range all {
		if problems[i] != nil {
			silent = append(silent, all[i].id+": "+operator.Text(problems[i].Error()))
			continue
		}
		members = append(members, answers[i])
	}
	return members, silent
}

// answer is what is read of api/v1/measured.
type answer struct {
	Version      int
	Program      string
	At           int64
	Dependencies []struct {
		Name                     string
		Calls, Succeeded, Unsent int64
		State                    string
		Latency                  struct{ P99 float64 } // milliseconds
		Settings                 []struct{ Path, Value string }
	}
}

func (p pod) look(ctx context.Context) (fleetlook.Member, error) {
	m := fleetlook.Member{ID: p.id}
	body, err := fetch.Get(ctx, p.ask, "name a page of package dashboard")
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text begins with the address, which is named already
			err = wrapped.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = context.Cause(ctx)
		}
		return m, err
	}
	defer body.Close()
	var a answer
	if err := json.NewDecoder(http.MaxBytesReader(nil, body, mostAnswer)).Decode(&a); err != nil {
		return m, fmt.Errorf("it is no answer of a page of gabion: %w", err)
	}
	if a.Version != 1 {
		return m, fmt.Errorf("its version is %d: a newer gabion command reads it", a.Version)
	}
	m.Version, m.Policies, m.Reported = a.Program, a.policies(), time.UnixMilli(a.At)
	for i := range a.Dependencies {
		d := &a.Dependencies[i]
		one := fleetlook.Dependency{
			Name: d.Name, Calls: max(d.Calls, 0), Succeeded: max(d.Succeeded, 0), Unsent: max(d.Unsent, 0),
			P99: time.Duration(min(max(d.Latency.P99, 0), 1e9) * float64(time.Millisecond)),
		}
		if d.State == policy.StateOpen.String() || d.State == policy.StateHalfOpen.String() {
			one.Open = []string{""} // which partition it is, the page of that process says
		}
		m.Dependencies = append(m.Dependencies, one)
	}
	return m, nil
}

// policies is a hash of the settings in force. Instances have those of the dependency that they are of.
func (a *answer) policies() string {
	names := map[string]bool{}
	for i := range a.Dependencies {
		names[a.Dependencies[i].Name] = true
	}
	var lines []string
	for i := range a.Dependencies {
		d := &a.Dependencies[i]
		if base, _, is := strings.Cut(d.Name, "/"); is && names[base] {
			continue
		}
		for _, s := range d.Settings {
			lines = append(lines, fmt.Sprintf("%q %q %q\n", d.Name, s.Path, s.Value))
		}
	}
	slices.Sort(lines)
	hash := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(hash[:6])
}
