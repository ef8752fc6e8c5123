package configcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/fetch"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/internal/suggest"
)

// notAPage says that an address can't be a page's.
type notAPage struct{ address string }

// Error implements error.
func (n notAPage) Error() string {
	return fmt.Sprintf("%.200q is no address of a page: it begins with http:// or https://", n.address)
}

// stateVersion is that of the page's JSON.
const stateVersion = 1

// state is what a page answers under api/v1/state, as far as it is read here.
type state struct {
	Version int `json:"version"`
	Tiles   []struct {
		Name   string `json:"name"`
		Budget *struct {
			Text string `json:"text"`
		} `json:"budget"`
		Slots *struct {
			Text string `json:"text"` // empty on pages of before
		} `json:"slots"`
		Breaker string `json:"breaker"` // empty where it is as the policy says
	} `json:"tiles"`
}

// levelsOf returns what the page at an address says of the budgets, the room and the breakers of the dependencies that
// the lines are about. It is an error if the page has none of them.
func levelsOf(ctx context.Context, address string, lines []line) ([]note, error) {
	texts, err := askPage(ctx, address)
	if err != nil {
		return nil, err
	}
	var wanted []string
	for _, l := range lines {
		wanted = append(wanted, l.Dependency)
	}
	wanted = slices.Compact(wanted)
	var notes []note
	known := false
	for _, name := range wanted {
		text, has := texts[name]
		known = known || has
		if !has {
			text = "the page has no dependency of this name"
		}
		notes = append(notes, note{name, text})
	}
	if !known {
		has := slices.Sorted(maps.Keys(texts))
		for i, name := range has {
			has[i] = operator.Text(name)
		}
		where := "it has none"
		if len(has) > 0 {
			where = "it has " + strings.Join(has, ", ")
		}
		if len(wanted) == 1 {
			if near := suggest.Nearest(wanted[0], has); near != "" {
				where += "; is it " + near + "?"
			}
		}
		return nil, fmt.Errorf("the page at %s has no dependency %s: %s", address, strings.Join(wanted, ", "), where)
	}
	return notes, nil
}

// askPage returns the texts of a page's budgets and room, by the name of the dependency.
func askPage(ctx context.Context, address string) (map[string]string, error) {
	page, err := url.Parse(address)
	if err != nil || page.Host == "" || page.Scheme != "http" && page.Scheme != "https" {
		return nil, notAPage{address}
	}
	body, err := fetch.Get(ctx, page.JoinPath("api/v1/state").String(), "name the address of a page of package dashboard")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var s state
	if err := json.NewDecoder(body).Decode(&s); err != nil {
		return nil, fmt.Errorf("%s gives no answer of a page of gabion: %w", address, err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("%s answers in version %d: a gabion command of that program's release reads it", address, s.Version)
	}
	texts := map[string]string{}
	for _, t := range s.Tiles {
		texts[t.Name] = "it has no budget there: nothing is sent again"
		if t.Budget != nil {
			texts[t.Name] = operator.Text(t.Budget.Text)
		}
		if t.Slots != nil && t.Slots.Text != "" {
			texts[t.Name] += ". Room: " + operator.Text(t.Slots.Text)
		}
		if t.Breaker != "" {
			texts[t.Name] += ". " + strings.ToUpper(t.Breaker[:1]) + operator.Text(t.Breaker[1:])
		}
	}
	return texts, nil
}
