package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

// The parts of Grafana's JSON that are used.
type (
	dashboard struct {
		UID           string      `json:"uid"`
		Title         string      `json:"title"`
		Description   string      `json:"description"`
		Tags          []string    `json:"tags"`
		Timezone      string      `json:"timezone"`
		Refresh       string      `json:"refresh"`
		SchemaVersion int         `json:"schemaVersion"`
		Time          timeRange   `json:"time"`
		Templating    templating  `json:"templating"`
		Panels        []grafPanel `json:"panels"`
		Links         []grafLink  `json:"links"`
		Annotations   annotation  `json:"annotations"`
		GraphTooltip  int         `json:"graphTooltip"`
		Editable      bool        `json:"editable"`
	}
	timeRange struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	templating struct {
		List []variable `json:"list"`
	}
	annotation struct {
		List []struct{} `json:"list"`
	}
	grafLink struct {
		Title       string `json:"title"`
		Type        string `json:"type"`
		URL         string `json:"url"`
		TargetBlank bool   `json:"targetBlank"`
	}
	variable struct {
		Name       string      `json:"name"`
		Label      string      `json:"label"`
		Type       string      `json:"type"`
		Query      string      `json:"query"`
		Datasource *datasource `json:"datasource,omitempty"`
		Refresh    int         `json:"refresh"`
		Sort       int         `json:"sort"`
		Multi      bool        `json:"multi"`
		IncludeAll bool        `json:"includeAll"`
		AllValue   string      `json:"allValue,omitempty"`
	}
	datasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	grafPanel struct {
		ID          int          `json:"id"`
		Type        string       `json:"type"`
		Title       string       `json:"title"`
		Description string       `json:"description,omitempty"`
		Datasource  *datasource  `json:"datasource,omitempty"`
		GridPos     grid         `json:"gridPos"`
		Targets     []grafTarget `json:"targets,omitempty"`
		FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
		Collapsed   *bool        `json:"collapsed,omitempty"`
	}
	grid struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	grafTarget struct {
		RefID        string     `json:"refId"`
		Datasource   datasource `json:"datasource"`
		Expr         string     `json:"expr"`
		LegendFormat string     `json:"legendFormat"`
	}
	fieldConfig struct {
		Defaults  fieldDefaults `json:"defaults"`
		Overrides []struct{}    `json:"overrides"`
	}
	fieldDefaults struct {
		Unit       string         `json:"unit,omitempty"`
		Min        *int           `json:"min,omitempty"`
		Custom     map[string]any `json:"custom,omitempty"`
		Thresholds *thresholds    `json:"thresholds,omitempty"`
		Mappings   []mapping      `json:"mappings,omitempty"`
	}
	thresholds struct {
		Mode  string `json:"mode"`
		Steps []step `json:"steps"`
	}
	step struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"`
	}
	mapping struct {
		Type    string            `json:"type"`
		Options map[string]option `json:"options"`
	}
	option struct {
		Text  string `json:"text"`
		Color string `json:"color"`
		Index int    `json:"index"`
	}
)

var source = &datasource{"prometheus", "${datasource}"}

// dashboardFile is the dashboard as Grafana imports it.
func dashboardFile() []byte {
	d := dashboard{
		UID: "gabion", Title: "Gabion", Tags: []string{"gabion"}, Timezone: "browser", Refresh: "30s", SchemaVersion: 39,
		Description: "How programs call their dependencies, and what gabion does about failures. Made from the metrics that docs/metrics.md lists.",
		Time:        timeRange{"now-3h", "now"}, GraphTooltip: 1, Editable: true,
		Links: []grafLink{{"What the alerts mean", "link", runbook[:len(runbook)-1], true}},
	}
	d.Annotations.List = []struct{}{}
	d.Templating.List = []variable{
		{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1},
		labelVariable("job", fmt.Sprintf("label_values(%s, job)", catalog.Calls.Name)),
		labelVariable("instance", fmt.Sprintf(`label_values(%s{job=~"$job"}, instance)`, catalog.Calls.Name)),
		labelVariable("dependency", fmt.Sprintf(`label_values(%s{job=~"$job", instance=~"$instance"}, dependency)`, catalog.Calls.Name)),
	}
	d.Panels = layOut()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(d); err != nil {
		panic(err) // it is made of strings and numbers
	}
	return b.Bytes()
}

func labelVariable(name, query string) variable {
	return variable{Name: name, Label: name, Type: "query", Query: query, Datasource: source, Refresh: 2, Sort: 1, Multi: true, IncludeAll: true, AllValue: ".*"}
}

// layOut gives each panel its place: rows from above, panels from the left.
func layOut() (all []grafPanel) {
	const height, full = 8, 24
	y, id := 0, 0
	for _, r := range rows {
		id++
		open := false
		all = append(all, grafPanel{ID: id, Type: "row", Title: r.title, GridPos: grid{1, full, 0, y}, Collapsed: &open})
		y++
		x := 0
		for i := range r.panels {
			p := &r.panels[i]
			w := p.width
			if w == 0 {
				w = 8
			}
			if x+w > full {
				x, y = 0, y+height
			}
			id++
			all = append(all, p.grafana(id, grid{height, w, x, y}))
			x += w
		}
		y += height
	}
	return all
}

func (p *panel) grafana(id int, at grid) grafPanel {
	g := grafPanel{ID: id, Type: "timeseries", Title: p.title, Description: p.about, Datasource: source, GridPos: at}
	if p.kind != "" {
		g.Type = p.kind
	}
	zero := 0
	g.FieldConfig = &fieldConfig{Defaults: fieldDefaults{Unit: p.unit, Min: &zero}, Overrides: []struct{}{}}
	if p.threshold > 0 {
		g.FieldConfig.Defaults.Custom = map[string]any{"thresholdsStyle": map[string]string{"mode": "line"}}
		g.FieldConfig.Defaults.Thresholds = &thresholds{"absolute", []step{{"green", nil}, {"red", &p.threshold}}}
	}
	if p.kind == "state-timeline" {
		g.FieldConfig.Defaults.Mappings = []mapping{stateMapping()}
	}
	for i, t := range p.targets {
		g.Targets = append(g.Targets, grafTarget{string(rune('A' + i)), *source, t.expr, t.legend})
	}
	return g
}

// stateMapping writes the words for the numbers of states.
func stateMapping() mapping {
	m := mapping{"value", map[string]option{}}
	for i, s := range states {
		m.Options[fmt.Sprint(i)] = option{s.name, s.color, i}
	}
	return m
}
