package lettercmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const filterHelp = `
  --group NAME     only letters that this group of consumers gave up
  --source NAME    only those from this stream, topic or queue
  --reason NAME    only those with this reason, such as attempts_exhausted
  --since TIME     only those put away at that time or later. It is a time such
                   as 2026-11-23T02:00:00Z, a day, or how long ago: 90m, 3d
  --before TIME    only those put away before that time
`

// A filter is what the flags say of which letters are meant.
type filter struct {
	group, source, reason, states, since, before string
}

func (f *filter) flags(set *flag.FlagSet) {
	set.StringVar(&f.group, "group", "", "")
	set.StringVar(&f.source, "source", "", "")
	set.StringVar(&f.reason, "reason", "", "")
	set.StringVar(&f.since, "since", "", "")
	set.StringVar(&f.before, "before", "", "")
}

func (f *filter) check() error {
	_, err := f.query(time.Now())
	return err
}

// given says whether anything narrows the letters.
func (f *filter) given() bool { return *f != filter{} }

// allStates are the states of letters.
var allStates = []deadletter.State{deadletter.Waiting, deadletter.Taken, deadletter.Done, deadletter.Dropped}

func (f *filter) query(now time.Time) (q deadletter.Query, err error) {
	q = deadletter.Query{Group: f.group, Source: f.source, Reason: f.reason}
	if q.States, err = statesOf(f.states); err != nil {
		return q, err
	}
	if q.After, err = timeOf("--since", f.since, now); err != nil {
		return q, err
	}
	if q.Before, err = timeOf("--before", f.before, now); err != nil {
		return q, err
	}
	if !q.After.IsZero() && !q.Before.IsZero() && !q.After.Before(q.Before) {
		return q, operator.Wrongf("--since is not earlier than --before, so no letter is meant")
	}
	return q, nil
}

func statesOf(text string) (states []deadletter.State, err error) {
	names := make([]string, len(allStates))
	for i, s := range allStates {
		names[i] = s.String()
	}
	if text == "" {
		return []deadletter.State{deadletter.Waiting}, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(names, name)
		switch {
		case name == "all":
			return allStates, nil
		case i < 0:
			hint := ""
			if near := suggest.Nearest(name, names); near != "" {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			return nil, operator.Wrongf("--state %q: it is all, or some of %s, with commas%s", name, strings.Join(names, ", "), hint)
		}
		states = append(states, allStates[i])
	}
	return states, nil
}

// timeOf reads a time, a day, or how long ago.
func timeOf(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	ago, unit := text, time.Duration(1)
	if days, is := strings.CutSuffix(text, "d"); is {
		ago, unit = days+"h", 24
	}
	d, err := time.ParseDuration(ago)
	if err != nil || d < 0 || d > 100*365*24*time.Hour/unit {
		return time.Time{}, operator.Wrongf("%s %q: it is a time such as 2026-11-23T02:00:00Z (UTC where nothing else is said), a day such as 2026-11-23, or how long ago, such as 90m or 3d", flag, text)
	}
	return now.Add(-d * unit), nil
}

const leastDigits = 6

// prefix checks the beginning of an ID.
func prefix(word string) (string, error) {
	word = strings.ToLower(word)
	switch {
	case strings.Trim(word, "0123456789abcdef") != "" || len(word) > 32:
		return "", operator.Wrongf("%q is no letter's ID, which has 32 hexadecimal digits: gabion deadletter ls lists them", word)
	case len(word) < leastDigits:
		return "", operator.Wrongf("%q is too short: give at least %d digits of the ID", word, leastDigits)
	}
	return word, nil
}

func prefixes(words []string) error {
	for _, word := range words {
		if _, err := prefix(word); err != nil {
			return err
		}
	}
	return nil
}

// find returns the letters that the words begin, without payloads.
func (c *call) find(ctx context.Context, words []string) (found []deadletter.Letter, err error) {
	for _, word := range words {
		begins, err := prefix(word)
		if err != nil {
			return nil, err
		}
		page, err := c.letters.List(ctx, deadletter.Query{Prefix: begins, States: allStates}, "", 5)
		switch {
		case err != nil:
			return nil, err
		case len(page.Letters) == 0:
			return nil, operator.Wrongf("there is no letter %s: gabion deadletter ls --state all lists them", begins)
		case len(page.Letters) > 1:
			return nil, operator.Wrongf("%s is the beginning of more than one letter: %s. Give more digits", begins, idsOf(page.Letters))
		}
		one := page.Letters[0]
		if !slices.ContainsFunc(found, func(l deadletter.Letter) bool { return l.ID == one.ID }) {
			found = append(found, one)
		}
	}
	return found, nil
}

func idsOf(letters []deadletter.Letter) string {
	ids := make([]string, len(letters))
	for i := range letters {
		ids[i] = string(letters[i].ID)
	}
	return strings.Join(ids, ", ")
}
