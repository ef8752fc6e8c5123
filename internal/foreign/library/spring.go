package library

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// springFile is the files of one application as Spring puts them together: the documents for all profiles are one, and
// the documents of a profile come over that.
type springFile struct {
	profile string
	tree    *yamlstrict.Tree
	touched map[string]bool // the instances that the profile says something of; nil for all
}

// springFiles puts documents together.
func springFiles(w *foreign.Walker, documents []*yamlstrict.Tree) (files []springFile) {
	var profiles []string
	of := make([]string, len(documents))
	for i, d := range documents {
		spring := nested(d, ".", 5).Get("spring")
		for _, at := range []*yamlstrict.Tree{spring.Get("config").Get("activate").Get("on-profile"), spring.Get("profiles")} {
			if at != nil && at.Kind == yamlstrict.Text && at.Text != "" {
				of[i] = at.Text
			}
		}
		if of[i] != "" && !slices.Contains(profiles, of[i]) {
			profiles = append(profiles, of[i])
		}
	}
	for _, profile := range append([]string{""}, profiles...) {
		f := springFile{profile: profile}
		said := false
		for i, d := range documents {
			if of[i] != "" && of[i] != profile {
				continue
			}
			d = nested(d, ".", 3)
			if of[i] == profile {
				said = true
				f.touches(d.Get("resilience4j"))
			}
			f.tree = over(f.tree, d)
		}
		if said {
			if profile == "" {
				f.touched = nil
			}
			f.tree = filled(w, f.tree)
			files = append(files, f)
		}
	}
	return files
}

// touches notes the instances that a document of a profile says something of: all, if it changes what they share.
func (f *springFile) touches(t *yamlstrict.Tree) {
	if f.touched == nil {
		f.touched = map[string]bool{}
	}
	if t == nil {
		return
	}
	for _, section := range t.Pairs {
		if section.Value.Get("configs") != nil {
			f.touched["*"] = true
		}
		for _, key := range append([]string{"instances"}, olds...) {
			if of := section.Value.Get(key); of != nil {
				for _, pair := range of.Pairs {
					f.touched[pair.Key.Text] = true
				}
			}
		}
	}
}

// olds are earlier names of instances, which resilience4j still takes.
var olds = []string{"backends", "limiters"}

// over puts one map over another: keys of both are the upper one's, and maps are put together.
func over(under, upper *yamlstrict.Tree) *yamlstrict.Tree {
	if under == nil || upper == nil || under.Kind != yamlstrict.Map || upper.Kind != yamlstrict.Map {
		if upper == nil {
			return under
		}
		return upper
	}
	made := *under
	made.Pairs = slices.Clone(under.Pairs)
	at := make(map[string]int, len(made.Pairs))
	for i, pair := range made.Pairs {
		at[relaxed(pair.Key.Text)] = i
	}
	for _, pair := range upper.Pairs {
		name := relaxed(pair.Key.Text)
		if i, ok := at[name]; ok {
			made.Pairs[i] = yamlstrict.Pair{Key: pair.Key, Value: over(made.Pairs[i].Value, pair.Value)}
			continue
		}
		at[name] = len(made.Pairs)
		made.Pairs = append(made.Pairs, pair)
	}
	return &made
}

// filled puts the defaults of variables in their place, below resilience4j.
func filled(w *foreign.Walker, t *yamlstrict.Tree) *yamlstrict.Tree {
	of := t.Get("resilience4j")
	if of == nil {
		return t
	}
	made := *t
	made.Pairs = slices.Clone(t.Pairs)
	for i, pair := range made.Pairs {
		if pair.Value == of {
			made.Pairs[i].Value = fill(w, of, "resilience4j", 0)
		}
	}
	return &made
}

// variable is a placeholder of Spring, with the default behind a colon.
var variable = regexp.MustCompile(`\$\{([^:{}]+)(?::([^{}]*))?\}`)

func fill(w *foreign.Walker, t *yamlstrict.Tree, path string, depth int) *yamlstrict.Tree {
	if t == nil || t.Kind != yamlstrict.Map || depth > 8 {
		return t
	}
	made := *t
	made.Pairs = make([]yamlstrict.Pair, 0, len(t.Pairs))
	for _, pair := range t.Pairs {
		at := path + "." + pair.Key.Text
		key := *pair.Key
		if depth == 1 && slices.Contains(olds, key.Text) {
			key.Text = "instances"
		}
		key.Text = strings.TrimSuffix(strings.TrimPrefix(key.Text, "["), "]") // how a key with dots is written
		value := fill(w, pair.Value, at, depth+1)
		if value != nil && value.Kind == yamlstrict.Text && strings.Contains(value.Text, "${") {
			if value = expand(w, &yamlstrict.Pair{Key: pair.Key, Value: value}, at); value == nil {
				continue
			}
		}
		made.Pairs = append(made.Pairs, yamlstrict.Pair{Key: &key, Value: value})
	}
	return &made
}

// expand takes the defaults of the variables of a value, and says so. One without a default leaves the value out.
func expand(w *foreign.Walker, pair *yamlstrict.Pair, path string) *yamlstrict.Tree {
	value := *pair.Value
	open := false
	value.Text = variable.ReplaceAllStringFunc(value.Text, func(s string) string {
		m := variable.FindStringSubmatch(s)
		open = open || !strings.Contains(s, ":")
		return m[2]
	})
	said := &foreign.Value{Path: path, Tree: pair.Value, Key: pair.Key}
	if open || strings.Contains(value.Text, "${") {
		w.Remark(said, foreign.Unknown, "{} has its value from outside, and is left out: write what it stands for")
		return nil
	}
	w.Remark(said, foreign.Nearly, "{} has its value from outside; its default is read, "+value.Text)
	return &value
}

// once leaves out what was said twice, as a document for all profiles is read with each of them.
func once(in *foreign.Import) *foreign.Import {
	said := map[foreign.Remark]bool{}
	in.Remarks = slices.DeleteFunc(in.Remarks, func(r foreign.Remark) bool {
		was := said[r]
		said[r] = true
		return was
	})
	in.Wrong = slices.Compact(in.Wrong)
	return in
}
