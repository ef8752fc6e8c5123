// Package site builds the site of docs/ and follows its links.
package site

import (
	"html"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/lab/playground"
)

var (
	href    = regexp.MustCompile(`<(?:a|link|script|img)\b[^>]*?\s(?:href|src)="([^"]*)"`)
	anchor  = regexp.MustCompile(`\b(?:id|name)="([^"]*)"`)
	article = regexp.MustCompile(`(?s)<article.*?</article>`)
	code    = regexp.MustCompile(`(?s)<pre.*?</pre>`)
)

// build makes the site of a configuration in a folder of its own.
func build(t *testing.T) fs.FS {
	t.Helper()
	mkdocs, err := exec.LookPath("mkdocs")
	if err != nil {
		testservers.Missing(t, "mkdocs is not installed")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), mkdocs, "build", "--quiet", "--strict", "--config-file", "../../deploy/site/mkdocs.yml", "--site-dir", dir)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.CopyFS(filepath.Join(dir, "playground"), playground.Page()); err != nil { // as make site does
		t.Fatal(err)
	}
	return os.DirFS(dir)
}

// broken lists links and anchors of a site that lead to nothing, or to another computer for what a page needs.
func broken(site fs.FS) (found []string, pages int, err error) {
	anchors := map[string]map[string]bool{}
	text := map[string]string{}
	err = fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		anchors[name] = map[string]bool{"": true}
		if path.Ext(name) != ".html" || name == "404.html" {
			return nil
		}
		data, err := fs.ReadFile(site, name)
		text[name] = string(data)
		for _, a := range anchor.FindAllStringSubmatch(text[name], -1) {
			anchors[name][html.UnescapeString(a[1])] = true
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for name, page := range text {
		for _, l := range href.FindAllStringSubmatch(page, -1) {
			u, err := url.Parse(html.UnescapeString(l[1]))
			if err != nil {
				found = append(found, name+": "+err.Error())
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				if strings.HasPrefix(l[0], "<script") || strings.HasPrefix(l[0], "<img") || strings.Contains(l[0], `rel="stylesheet"`) {
					found = append(found, name+": needs "+l[1])
				}
				continue
			}
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if to == "." || anchors[to] == nil && anchors[path.Join(to, "index.html")] != nil {
				to = path.Join(to, "index.html")
			}
			if anchors[to] == nil || path.Ext(to) == ".html" && !anchors[to][u.Fragment] {
				found = append(found, name+": "+l[1]+" leads to nothing")
			}
		}
	}
	return found, len(text), nil
}

func TestEveryLinkOfTheSiteLeadsSomewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the site")
	}
	site := build(t)
	found, pages, err := broken(site)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
	sources := 0
	err = fs.WalkDir(os.DirFS("../../docs"), ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			sources++
		}
		return err
	})
	if err != nil || pages != sources+1 { // and the playground
		t.Errorf("%d pages of %d files, %v", pages, sources, err)
	}
	if text, err := fs.ReadFile(site, "playground.html"); err != nil || !strings.Contains(string(text), `href="playground/index.html"`) {
		t.Errorf("no page leads to the playground: %v", err)
	}
	index, err := fs.ReadFile(site, "search/search_index.json")
	if err != nil || !strings.Contains(string(index), "Retry budgets") {
		t.Errorf("the search does not know retry budgets: %v", err)
	}
	// A forge takes lines with * right after a paragraph for a list.
	err = fs.WalkDir(site, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		text, err := fs.ReadFile(site, name)
		if m := regexp.MustCompile(`(?m)^\* .*`).Find(code.ReplaceAll(article.Find(text), nil)); m != nil {
			t.Errorf("%s shows a list as text: %s", name, m)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatLeadsToNothing(t *testing.T) {
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, c := range []struct{ text, want string }{
		{`<a href="b/c.html#x">`, ""},
		{`<a href="b">`, ""},
		{`<a href="#y" id="y">`, ""},
		{`<a class="k" href="b/c.html#z">`, "c.html#z leads to nothing"},
		{`<a href="d.html">`, "d.html leads to nothing"},
		{`<img src="d.png">`, "d.png leads to nothing"},
		{`<a href="https://example.com/#x">`, ""},
		{`<script src="https://example.com/x.js">`, "needs https"},
	} {
		found, pages, err := broken(fstest.MapFS{"a.html": page(c.text), "b/c.html": page(`<h2 id="x">`), "b/index.html": page("")})
		if got := strings.Join(found, "\n"); err != nil || pages != 3 || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q; %d pages, %v", c.text, got, c.want, pages, err)
		}
	}
}
