package report

import (
	"crypto/sha256"
	_ "embed" // the page's script
	"encoding/base64"
	"strconv"
	"strings"
)

//go:embed zoom.js
var script string

// policyOf is what the page may do: run its one script and use its one style sheet,
// which are named by their hashes, and nothing else.
func policyOf(style, script string) string {
	return "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// zoomBar has a button for each phase and each trouble. Only the script shows it: without
// one the pictures show the whole run.
func (s *sheet) zoomBar() *node {
	const several = 8 // buttons of troubles; the others can be picked in a picture
	list := s.causes()
	if len(list) == 0 && s.end < 60*s.bin {
		return nil
	}
	bar := el("div", "id", "zoom", "class", "zoombar", "hidden", "hidden", "role", "group", "aria-label", "Zoom of all pictures over time",
		"data-end", plainly(s.end.Seconds()), "data-least", plainly(4*s.bin.Seconds()))
	button := func(from, to float64, text string) {
		from, to = max(from, 0), min(to, s.end.Seconds())
		bar.add(el("button", "type", "button", "data-from", plainly(from), "data-to", plainly(to)).say(text))
	}
	bar.add(words("span", "what", "Zoom"))
	button(0, s.end.Seconds(), "whole run")
	if s.During[1] > s.During[0] {
		around := max((s.During[1]-s.During[0])/2, 5*s.Bin)
		button(s.During[0]-around, s.During[1]+around, "the trouble")
	}
	if len(list) > 1 || len(list) == 1 && list[0].times > 1 {
		for _, c := range list[:min(len(list), several)] {
			around := max((c.to-c.from).Seconds()/2, 5*s.Bin)
			button(c.from.Seconds()-around, c.to.Seconds()+around, c.name+", "+moment(c.from))
		}
	}
	if over := s.During[1]; over > s.During[0] && over < s.Duration {
		button(over, min(over+max(s.During[1]-s.During[0], 20*s.Bin), s.Duration), "right after")
	}
	return bar.add(el("span", "class", "now", "aria-live", "polite"), words("span", "hint", "or draw across a picture; double click shows all"))
}

func plainly(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', -1, 64), ".")
}
