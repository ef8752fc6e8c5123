package testservers

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestServersStartWithCopiesOfOneTemplateThatCanBeCopied(t *testing.T) {
	cache := ownCache(t)
	a := StartPostgres(t)
	postgresSays(t, a.Addr, "CREATE TABLE t AS SELECT 1 AS n")
	templates, _ := filepath.Glob(filepath.Join(cache, "gabion-testservers", "*"))
	if len(templates) != 1 {
		t.Fatalf("templates: %q, want one and nothing half made", templates)
	}
	made := modified(t, templates[0])
	b := StartPostgres(t)
	if got := postgresSays(t, b.Addr, "SELECT count(*) FROM pg_class WHERE relname = 't'"); got != "0" {
		t.Errorf("one server has %s tables of the other's", got)
	}
	const id = "SELECT system_identifier FROM pg_control_system()"
	if x, y := postgresSays(t, a.Addr, id), postgresSays(t, b.Addr, id); x != y {
		t.Errorf("the second server made a data directory of its own: %s, %s", x, y)
	}
	if !modified(t, templates[0]).Equal(made) {
		t.Error("a server wrote into the template")
	}
	if err := os.Symlink("nowhere", filepath.Join(templates[0], "zz")); err != nil { // the last to be copied
		t.Fatal(err)
	}
	if c := StartPostgres(t); postgresSays(t, c.Addr, id) == postgresSays(t, a.Addr, id) {
		t.Error("a template that can't be copied was used")
	}
}

func TestTemplateIsOfItsProgramAndDay(t *testing.T) {
	ownCache(t)
	program, other := filepath.Join(t.TempDir(), "initdb"), filepath.Join(t.TempDir(), "initdb")
	for _, name := range []string{program, other} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	name := templateName("postgres", program, nil, now)
	if name == "" || name != templateName("postgres", program, nil, now.Add(time.Hour)) {
		t.Errorf("%q is not what the same day's next server asks for", name)
	}
	for what, differs := range map[string]string{
		"kind":    templateName("mariadb", program, nil, now),
		"program": templateName("postgres", other, nil, now),
		"options": templateName("postgres", program, []string{"x"}, now),
		"day":     templateName("postgres", program, nil, now.AddDate(0, 0, 1)),
	} {
		if differs == name {
			t.Errorf("another %s has the same template", what)
		}
	}
	if got := templateName("postgres", program+"x", nil, now); got != "" {
		t.Errorf("a program that is not there has the template %q", got)
	}
}

func TestTemplatesOfOtherDaysAreRemoved(t *testing.T) {
	dir := filepath.Join(ownCache(t), "gabion-testservers")
	old, mariadb := filepath.Join(dir, "postgres-20260101-00"), filepath.Join(dir, "mariadb-20260101-00")
	for _, name := range []string{old, mariadb} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &Server{t: t, dir: t.TempDir(), kind: kind{name: "postgres"}}
	if err := os.Mkdir(s.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	today := filepath.Join(dir, "postgres-20260102-00")
	s.keep(today)
	for name, want := range map[string]bool{today: true, old: false, mariadb: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
}

// ownCache gives the test a cache in which there is nothing yet.
func ownCache(t *testing.T) string {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

func modified(t *testing.T, name string) time.Time {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}
