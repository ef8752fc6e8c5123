package testservers

import (
	"os/exec"
	"path/filepath"
)

// Replica starts a PostgreSQL server that follows s, which is one too, and refuses to write
// until it is promoted: SELECT pg_promote().
func (s *Server) Replica() *Server {
	s.t.Helper()
	bin, err := postgresBin()
	if err != nil {
		Missing(s.t, "%v", err)
	}
	r := &Server{t: s.t, kind: s.kind, dir: ownedDir(s.t, "postgres", s.owner), owner: s.owner}
	cmd := exec.Command(filepath.Join(bin, "pg_basebackup"), "-d", s.DSN, "-D", r.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	cmd.Dir = r.dir
	cmd.SysProcAttr = attributes(r.owner)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("testservers: pg_basebackup: %v\n%s", err, out)
	}
	launch(r)
	r.DSN = "postgres://postgres@" + r.Addr + "/postgres?sslmode=disable"
	return r
}
