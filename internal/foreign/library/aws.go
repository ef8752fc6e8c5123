package library

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// awsDoc is where the keys of profiles are explained.
const awsDoc = "https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html"

var awsTable = foreign.NewTable("SDKs ignore it", strings.ToLower,
	[]foreign.Rule{
		{Key: "retry_mode", Shape: foldedWord("legacy", "standard", "adaptive"), Fate: foreign.Kept, To: "retry.budget", Source: awsDoc},
		{Key: "max_attempts", Shape: awsCount, Fate: foreign.Kept, To: "retry.attempts", Source: awsDoc},
		{Key: "defaults_mode", Shape: foldedWord("legacy", "standard", "in-region", "cross-region", "mobile", "auto"), Fate: foreign.Lost,
			Text: "{} sets timeouts of connections and of TLS: set them in the HTTP client", Source: "https://docs.aws.amazon.com/sdkref/latest/guide/feature-smart-config-defaults.html"},
		{Key: "connect_timeout", Fate: foreign.Lost, Text: "{} s for a connection: set it in the HTTP client's dialer", Source: "https://docs.aws.amazon.com/cli/latest/topic/config-vars.html"},
		{Key: "read_timeout", Fate: foreign.Lost, Text: "{} s without a byte: timeout.attempt bounds an attempt until its headers, and timeout.idle a body", Source: "https://docs.aws.amazon.com/cli/latest/topic/config-vars.html"},
		{Key: "tcp_keepalive", Fate: foreign.Elsewhere, Text: "is about connections", Source: "https://docs.aws.amazon.com/cli/latest/topic/config-vars.html"},
	},
	foreign.Stays("is not about calls that fail", "*"),
)

// awsCount takes a whole number of attempts.
func awsCount(v *foreign.Value) (reason, proposal string) {
	return foreign.Loosely(foreign.Whole(1, 1<<31-1))(v)
}

// awsHead is the head of a section.
var awsHead = regexp.MustCompile(`^\[\s*([^\]]*?)\s*\]\s*([#;].*)?$`)

var aws = foreign.Format{
	Name: "aws", Aliases: []string{"aws-config"}, Title: "AWS's shared config file (profiles)", Source: awsDoc, Tables: []*foreign.Table{awsTable}, Plain: true,
	Like: func(text []byte, _ []*yamlstrict.Tree) bool {
		head := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if m := awsHead.FindStringSubmatch(line); m != nil {
				head = head || m[1] == "default" || strings.HasPrefix(m[1], "profile ")
			}
			key, _, ok := strings.Cut(line, "=")
			if key = strings.ToLower(strings.TrimSpace(key)); ok && head && (key == "retry_mode" || key == "max_attempts") {
				return true
			}
		}
		return false
	},
	Read: readAWS,
}

func readAWS(f *foreign.File) *foreign.Import {
	w := foreign.NewWalker(f, "aws")
	for _, s := range profiles(ini(w, string(f.Text))) {
		name := strings.Trim(strings.TrimSpace(strings.TrimPrefix(s.Key.Text, "profile ")), `"'`)
		v := w.Read(s.Value, awsTable, s.Key.Text)
		mode, most := v.Get("retry_mode"), v.Get("max_attempts")
		if mode != nil || most != nil {
			profile(w, name, s.Key.Line, mode, most)
		}
	}
	return w.Done()
}

// profiles are the sections of profiles: those of one name are one, and [profile default] counts before [default].
func profiles(sections []yamlstrict.Pair) (all []yamlstrict.Pair) {
	at := map[string]int{}
	for _, s := range sections {
		name, ok := strings.CutPrefix(s.Key.Text, "profile ")
		if !ok && name != "default" {
			continue // of single sign-on, or services
		}
		i, seen := at[name]
		switch {
		case !seen:
			at[name] = len(all)
			all = append(all, s)
		case all[i].Key.Text == s.Key.Text:
			all[i].Value.Pairs = append(all[i].Value.Pairs, s.Value.Pairs...)
		case ok:
			all[i] = s
		}
	}
	return all
}

// ini reads sections with keys. What is indented belongs to the key before it.
func ini(w *foreign.Walker, text string) (sections []yamlstrict.Pair) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimSpace(line)
		at := &yamlstrict.Tree{Line: n, Col: 1 + len(line) - len(strings.TrimLeft(line, " \t")), Kind: yamlstrict.Text, Text: bare}
		wrong := func(reason, proposal string) {
			w.Wrong(&foreign.Value{Path: "line", Tree: at, Key: at}, reason, proposal)
		}
		switch {
		case bare == "" || bare[0] == '#' || bare[0] == ';':
		case bare[0] == '[':
			m := awsHead.FindStringSubmatch(bare)
			if m == nil || m[1] == "" {
				wrong("a section has no end", "write [profile NAME]")
				continue
			}
			at.Text = strings.Join(strings.Fields(m[1]), " ")
			sections = append(sections, yamlstrict.Pair{Key: at, Value: &yamlstrict.Tree{Kind: yamlstrict.Map, Line: n, Col: 1}})
		case line[0] == ' ' || line[0] == '\t':
		default:
			key, value, ok := strings.Cut(bare, "=")
			if !ok || len(sections) == 0 {
				wrong("is neither a section nor a key with a value", "write KEY = VALUE below a [section]")
				continue
			}
			if i := strings.IndexAny(value, "#;"); i > 0 && (value[i-1] == ' ' || value[i-1] == '\t') {
				value = value[:i]
			}
			at.Text = strings.TrimSpace(key)
			of := sections[len(sections)-1].Value
			of.Pairs = append(of.Pairs, yamlstrict.Pair{Key: at, Value: &yamlstrict.Tree{Kind: yamlstrict.Text, Text: strings.TrimSpace(value), Line: n, Col: at.Col + strings.Index(bare, "=") + 1}})
		}
	}
	return sections
}

// profile makes a route of a profile.
func profile(w *foreign.Walker, name string, line int, mode, most *foreign.Value) {
	d := begin(w, name, "profile "+name, line)
	tries := 3
	if most != nil {
		tries = int(min(most.Number, terms.MaxSends))
		if most.Number > terms.MaxSends {
			w.Remark(most, foreign.Nearly, "{} attempts are 64 here, the most of a call")
		}
	}
	quota := policy.Budget{Shape: policy.BudgetQuota, Capacity: 500, Cost: 14, ThrottledCost: 5, TimeoutCost: 14, Ratio: 1}
	d.plays(func(p *policy.Policy) {
		p.Retry.Attempts, p.Retry.Backoff, p.Retry.Budget = 3, backoff.Full(50*time.Millisecond, 20*time.Second), quota
	})
	const since = "as SDKs do it from November 2026 on, or with AWS_NEW_RETRIES_2026: the first wait is up to 50ms, after a throttled answer up to 1s there; a retry takes 14 of 500 tokens, and 5 after such an answer. Before, waits begin with up to 1s, and a retry takes 5, and 10 after a timeout"
	switch mode.Word("standard") {
	case "standard":
		w.Remark(mode, foreign.Nearly, since)
	case "adaptive":
		w.Remark(mode, foreign.Nearly, since+". A rate is learned from throttled answers there, and calls wait for it; here the whole client waits for the time that such an answer asks for, at most 20s")
		d.says(mode, func(p *policy.Policy) { p.Pace = policy.Pace{Max: 20 * time.Second} }, "pace", "pace.max")
	case "legacy":
		w.Remark(mode, foreign.Nearly, "each SDK has legacy rules of its own, of 3 to 5 attempts without the same quota; in the lab the standard rules of before 2026 play")
		quota.Cost, quota.TimeoutCost = 5, 10
		d.plays(func(p *policy.Policy) {
			p.Retry.Backoff, p.Retry.Budget = backoff.Full(2*time.Second, 20*time.Second), quota
		})
	}
	if mode != nil && tries > 1 && mode.Text != "legacy" {
		d.says(mode, func(p *policy.Policy) {
			p.Retry.Budget, p.Retry.Backoff = quota, backoff.Full(50*time.Millisecond, 20*time.Second)
		}, "retry.budget", "retry.backoff")
	}
	d.says(most, func(p *policy.Policy) { p.Retry.Attempts = tries }, "retry.attempts")
	d.resends("429", "500", "502", "503", "504") // 429 where the answer says that it throttles
	d.repeats(cmp.Or(mode, most), "an SDK")
	d.done()
}
