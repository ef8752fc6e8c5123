package wholefile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	check := func(want string, mode os.FileMode) {
		t.Helper()
		text, err := os.ReadFile(path)
		info, err2 := os.Stat(path)
		if err != nil || err2 != nil || string(text) != want || info.Mode() != mode {
			t.Errorf("%q, %v, %v, %v", text, info.Mode(), err, err2)
		}
	}
	if err := Replace(path, []byte("new"), 0o604); err != nil {
		t.Fatal(err)
	}
	check("new", 0o604)
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	if err := Replace(link, []byte("newer"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("newer", 0o604)
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if err := Replace(filepath.Join(dir, "no", "a"), nil, 0o600); err == nil {
		t.Error("there is no such folder")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "folder"), nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("there are %v", entries)
	}
}
