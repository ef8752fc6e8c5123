package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/config"
)

// watched is a file that a Watch looks after.
type watched struct {
	*testing.T
	dir, path string
	now       chan os.Signal
	refuse    error    // what Apply says
	applied   []string // the call timeouts of payments
	failed    []error
}

func text(call string) string {
	return "version: 1\ndependencies:\n  payments:\n    timeout: {call: " + call + "}\n  stock: {}\n"
}

func (w *watched) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// replace writes beside the file and renames, as careful programs do.
func (w *watched) replace(text string) {
	w.Helper()
	w.write("next", text)
	if err := os.Rename(filepath.Join(w.dir, "next"), w.path); err != nil {
		w.Fatal(err)
	}
}

func (w *watched) want(applied ...string) {
	w.Helper()
	if strings.Join(w.applied, " ") != strings.Join(applied, " ") {
		w.Errorf("applied %q, want %q", w.applied, applied)
	}
}

func (w *watched) wantFailures(n int) {
	w.Helper()
	if len(w.failed) != n {
		w.Errorf("told of %d failures, want %d: %v", len(w.failed), n, w.failed)
	}
}

// watch runs f beside a Watch with that interval, in a bubble.
func watch(t *testing.T, interval time.Duration, f func(*watched)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{T: t, dir: dir, path: filepath.Join(dir, "gabion.yaml"), now: make(chan os.Signal)}
		if _, err := os.Lstat(w.path); err != nil {
			w.write("gabion.yaml", text("1s"))
		}
		file, err := config.Load(w.path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- config.Watch(ctx, file, config.Watching{
				Interval: interval, Now: w.now,
				Apply: func(f *config.File) error {
					if w.refuse != nil {
						return w.refuse
					}
					w.applied = append(w.applied, f.Policies["payments"].Timeout.Call.String())
					return nil
				},
				Failed: func(err error) { w.failed = append(w.failed, err) },
			})
		}()
		f(w)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch ended with %v", err)
		}
	})
}

// settled waits for two looks.
func settled() { passes(12 * time.Second) }

// passes lets time pass, and what is due then be done.
func passes(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestAFileIsWatched(t *testing.T) {
	for _, c := range []struct {
		fact string
		play func(*watched)
	}{
		{"what does not change is not applied", func(w *watched) {
			settled()
			w.write("gabion.yaml", text("1s")) // touched
			settled()
			w.want()
		}},
		{"a file that is written in place", func(w *watched) { w.write("gabion.yaml", text("2s")); settled(); w.want("2s") }},
		{"a file that is replaced by a rename", func(w *watched) {
			w.replace(text("2s"))
			settled()
			w.replace(text("3s"))
			settled()
			w.want("2s", "3s")
		}},
		{"half of a file is not applied, though it has no mistakes", func(w *watched) {
			whole := text("2s")
			passes(5*time.Second - time.Millisecond)
			w.write("gabion.yaml", whole[:strings.Index(whole, "  stock")])
			passes(100 * time.Millisecond) // there was a look
			w.write("gabion.yaml", whole)
			settled()
			w.want("2s")
			w.wantFailures(0)
		}},
		{"an empty file for a moment is no failure", func(w *watched) {
			passes(5*time.Second - time.Millisecond)
			w.write("gabion.yaml", "")
			passes(100 * time.Millisecond)
			w.write("gabion.yaml", text("2s"))
			settled()
			w.want("2s")
			w.wantFailures(0)
		}},
		{"a version with mistakes is reported once, and the last good one stays", func(w *watched) {
			w.write("gabion.yaml", text("2"))
			passes(time.Hour)
			w.want()
			w.wantFailures(1)
			if found := (config.Findings)(nil); !errors.As(w.failed[0], &found) || !strings.Contains(w.failed[0].Error(), "has no unit") {
				w.Errorf("told %v", w.failed[0])
			}
			w.write("gabion.yaml", text("1s")) // taken back
			settled()
			w.want()
			w.write("gabion.yaml", text("3s"))
			settled()
			w.want("3s")
			w.wantFailures(1)
		}},
		{"a file that is gone is reported once, and comes back", func(w *watched) {
			if err := os.Remove(w.path); err != nil {
				w.Fatal(err)
			}
			passes(time.Hour)
			w.wantFailures(1)
			if !errors.Is(w.failed[0], os.ErrNotExist) {
				w.Error(w.failed[0])
			}
			w.write("gabion.yaml", text("2s"))
			settled()
			w.want("2s")
		}},
		{"what Apply refuses is reported, and tried again on a signal", func(w *watched) {
			w.refuse = errors.New("not now")
			w.write("gabion.yaml", text("2s"))
			passes(time.Hour)
			w.wantFailures(1)
			w.refuse = nil
			w.now <- os.Interrupt
			synctest.Wait()
			w.want("2s")
		}},
		{"a signal brings a look at once, and applies what is in force", func(w *watched) {
			w.write("gabion.yaml", text("2s"))
			w.now <- os.Interrupt
			w.now <- os.Interrupt
			synctest.Wait()
			w.want("2s", "2s")
			settled()
			w.want("2s", "2s")
		}},
		{"a closed channel of signals changes nothing", func(w *watched) {
			close(w.now)
			w.write("gabion.yaml", text("2s"))
			settled()
			w.want("2s")
		}},
	} {
		t.Run(c.fact, func(t *testing.T) { watch(t, 0, c.play) })
	}
	t.Run("without an interval only a signal counts", func(t *testing.T) {
		watch(t, -1, func(w *watched) {
			w.write("gabion.yaml", text("2s"))
			passes(time.Hour)
			w.want()
			w.now <- os.Interrupt
			synctest.Wait()
			w.want("2s")
		})
	})
}

// A mounted ConfigMap is a link to a link: gabion.yaml -> ..data/gabion.yaml, and ..data is
// replaced by a rename to lead to the directory of the new version. The old one is removed.
func TestAMountedConfigMapIsWatched(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	version := func(w *watched, name, call string) {
		w.Helper()
		steps := []error{
			os.Mkdir(filepath.Join(w.dir, name), 0o700),
			os.WriteFile(filepath.Join(w.dir, name, "gabion.yaml"), []byte(text(call)), 0o600),
			os.Symlink(name, filepath.Join(w.dir, "..data_tmp")),
			os.Rename(filepath.Join(w.dir, "..data_tmp"), filepath.Join(w.dir, "..data")),
		}
		if err := errors.Join(steps...); err != nil {
			w.Fatal(err)
		}
	}
	watch(t, time.Minute, func(w *watched) {
		version(w, "..2026_01", "1s")
		if err := errors.Join(os.Remove(w.path), os.Symlink(filepath.Join("..data", "gabion.yaml"), w.path)); err != nil {
			w.Fatal(err)
		}
		passes(2 * time.Minute)
		w.want()
		version(w, "..2026_02", "2s")
		if err := os.RemoveAll(filepath.Join(w.dir, "..2026_01")); err != nil {
			w.Fatal(err)
		}
		passes(2 * time.Minute)
		w.want("2s")
		w.wantFailures(0)
	})
}

func TestWhatCanNotBeWatched(t *testing.T) {
	file, err := config.Parse("gabion.yaml", []byte(text("1s")))
	if err != nil {
		t.Fatal(err)
	}
	apply := func(*config.File) error { return nil }
	read, _ := config.Read("gabion.yaml", []byte(text("1s")))
	for fact, end := range map[string]error{
		"no file":                        config.Watch(t.Context(), nil, config.Watching{Apply: apply}),
		"a file that was read for tools": config.Watch(t.Context(), read, config.Watching{Apply: apply}),
		"no Apply":                       config.Watch(t.Context(), file, config.Watching{}),
		"an interval without its unit":   config.Watch(t.Context(), file, config.Watching{Apply: apply, Interval: 5}),
	} {
		if end == nil {
			t.Errorf("%s: no error", fact)
		}
	}
}
