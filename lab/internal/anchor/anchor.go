package anchor

import (
	"context"
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/internal/suggest"
)

// Figure is one thing that a model measured. Its name ends in its unit where it has
// one: time_ms, recovery_s, sent_per_s. Shares are between 0 and 1.
type Figure struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
}

// Case is a figure beside what was published. The zero Case did not pass.
type Case struct {
	Figure
	Expected  float64 `json:"expected"`
	Tolerance float64 `json:"tolerance"`       // how far off it may be, absolutely
	Bound     Bound   `json:"bound,omitempty"` // what Expected is
	Pass      bool    `json:"pass"`
}

// Bound says what an expectation is. The zero Bound is a value: the measured one
// must be within the tolerance of it.
type Bound string

// The bounds, which hold with the tolerance granted. They are for results that were
// published as an order and not as a number.
const (
	AtLeast Bound = "at least"
	AtMost  Bound = "at most"
)

func (c *Case) judge() {
	switch off := c.Measured - c.Expected; c.Bound {
	case AtLeast:
		c.Pass = off >= -c.Tolerance
	case AtMost:
		c.Pass = off <= c.Tolerance
	default:
		c.Pass = off >= -c.Tolerance && off <= c.Tolerance
	}
}

// model is one anchor.
type model struct {
	name     string
	says     string
	settings []setting
	run      func(context.Context, values) ([]Figure, error)
}

// models are all anchors, in the order in which to show them.
func models() []model {
	return []model{
		awsOCC, brookerRetry, backoffLoop, collapseModel, throttleModel, layersModel, metastableModel,
		tailModel, fanoutModel, hedgeLoad, vegasModel, gradientModel, mm1, mmc, md1, mm1k, jitterModel,
	}
}

// Setting describes one parameter of an anchor.
type Setting struct {
	Key     string
	Default string
	Says    string // what it is, and what it can be
}

// Description says what an anchor is.
type Description struct {
	Name     string
	Says     string
	Settings []Setting
}

// Anchors describes all anchors, in the order in which to show them.
func Anchors() []Description {
	var all []Description
	for _, m := range models() {
		d := Description{Name: m.name, Says: m.says}
		for _, s := range m.settings {
			d.Settings = append(d.Settings, Setting{s.key, s.standard, s.says + " (" + s.kind.says + ")"})
		}
		all = append(all, d)
	}
	return all
}

// Run runs one anchor. Settings that are not given have their defaults, which
// [Anchors] tells. The same settings give the same figures on every machine,
// whatever runs beside. It is safe for concurrent use.
//
// An unknown name or key and a value that can't be are a *[SettingError]; when ctx
// ends first, its error is returned.
func Run(ctx context.Context, name string, settings map[string]string) ([]Figure, error) {
	m, err := find(name)
	if err != nil {
		return nil, err
	}
	v, err := m.read(settings)
	if err != nil {
		return nil, err
	}
	figures, err := m.run(ctx, v)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("anchor %s: %w", name, err)
	}
	return figures, nil
}

func find(name string) (model, error) {
	var names []string
	for _, m := range models() {
		if m.name == name {
			return m, nil
		}
		names = append(names, m.name)
	}
	return model{}, &SettingError{Anchor: name, Problem: "no anchor is called that; " + proposal(name, names)}
}

// SettingError says that an anchor was asked for wrongly.
type SettingError struct {
	Anchor  string // as it was asked for
	Setting string // as it was written, "clients=many"; empty when the anchor itself is unknown
	Problem string // what is wrong, and what may have been meant
}

// Error returns the whole in one line.
func (e *SettingError) Error() string {
	if e.Setting == "" {
		return fmt.Sprintf("anchor %q: %s", e.Anchor, e.Problem)
	}
	return fmt.Sprintf("anchor %s, %s: %s", e.Anchor, e.Setting, e.Problem)
}

// proposal names what is most like a word that is not known, or else everything.
func proposal(typed string, known []string) string {
	if near := suggest.Nearest(typed, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "there are " + strings.Join(known, ", ")
}
