package sqlitestore

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Only the owner can read stored responses.
func TestNewFilesAreTheOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	for _, c := range []struct {
		name   string
		before os.FileMode // zero if there is no file
		want   os.FileMode
	}{
		{"a new file", 0, 0o600},
		{"a file that is there keeps its permissions", 0o640, 0o640},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "db")
			if c.before != 0 {
				if err := os.WriteFile(file, nil, c.before); err != nil {
					t.Fatal(err)
				}
			}
			db, store, err := Open(t.Context(), file, "records")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s := newShop(t, db, store)
			s.Work = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }
			s.Post("k", "x")
			for _, end := range []string{"", "-wal", "-shm"} {
				info, err := os.Stat(file + end)
				if err != nil || info.Mode().Perm() != c.want {
					t.Errorf("%q: %v, %v", end, info.Mode(), err)
				}
			}
		})
	}
	if _, _, err := Open(t.Context(), filepath.Join(t.TempDir(), "no", "folder"), "records"); err == nil {
		t.Error("a folder that is missing")
	}
}
