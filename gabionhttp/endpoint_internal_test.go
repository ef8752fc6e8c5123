package gabionhttp

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// What is joined stays below the endpoint, by net/url's resolution, by path.Clean of what is decoded, and with
// backslashes for slashes. Plain paths are refused only if they climb.
func FuzzJoined(f *testing.F) {
	for _, p := range []string{"", "/", "/a", "//x", "/a/../b", "/../b", "/%2e%2e/b", "/a//../../b", "/..%2fb", "/..%5cb", "/a%2F/b", "/a/..", "/..;/b", "/..a", "/%2Fx", "/%61", "/;../x"} {
		f.Add("/v1", p)
		f.Add("/a%2Fb/", p)
	}
	f.Fuzz(func(t *testing.T, prefix, asked string) {
		base, err := url.Parse("https://eu.example.com" + prefix)
		of, err2 := url.Parse("http://any" + asked)
		if err != nil || err2 != nil || strings.Contains(prefix, "//") || base.Host != "eu.example.com" || of.Host != "any" || base.Path == "" || base.Path == "/" || path.Clean(base.Path)+"/" != strings.TrimSuffix(base.Path, "/")+"/" {
			return
		}
		if strings.ContainsAny(base.Path, `\;`) {
			return
		}
		plain := !strings.ContainsAny(asked, `%\;`) && !strings.Contains(asked, "//")
		if climbs(of) {
			if !strings.Contains(of.Path, "..") || plain && !strings.HasPrefix(path.Clean(strings.TrimPrefix(of.Path, "/")), "..") {
				t.Fatalf("%q is refused", asked)
			}
			return
		}
		u := *base
		u.Path, u.RawPath = joined(base, of)
		below := func(how, got, prefix string) {
			if prefix = strings.TrimSuffix(prefix, "/"); got != prefix && !strings.HasPrefix(got, prefix+"/") {
				t.Errorf("%q at %q is %q: by %s %q", asked, prefix, u.EscapedPath(), how, got)
			}
		}
		below("net/url", base.ResolveReference(&u).EscapedPath(), base.EscapedPath())
		below("decoding", path.Clean(u.Path), base.Path)
		below("backslashes", path.Clean(strings.ReplaceAll(u.Path, `\`, "/")), base.Path)
		below("as it is", u.EscapedPath(), base.EscapedPath())
		if of.Path != "" && strings.TrimPrefix(strings.TrimPrefix(u.EscapedPath(), strings.TrimSuffix(base.EscapedPath(), "/")), "/") != strings.TrimPrefix(of.EscapedPath(), "/") {
			t.Errorf("%q at %q became %q", asked, prefix, u.EscapedPath())
		}
		if plain && of.RawPath == "" && base.RawPath == "" && of.Path != "" && !strings.Contains(of.Path, ".") {
			if want := base.JoinPath(of.Path).Path; want != u.Path {
				t.Errorf("%q at %q is %q, and %q by JoinPath", asked, prefix, u.Path, want)
			}
		}
	})
}
