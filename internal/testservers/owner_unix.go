//go:build unix

package testservers

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// unprivileged returns the first of the users that exists, or nil when the test
// does not run as root anyway.
func unprivileged(names ...string) (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		if u, err := user.Lookup(name); err == nil {
			return ownerOf(u)
		}
	}
	return nil, errors.New("there is no user " + strings.Join(names, " or "))
}

func ownerOf(u *user.User) (*owner, error) {
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &owner{uid, gid}, nil
}

// attributes puts the child into a process group of its own, so that Ctrl-C
// reaches the test and not the server, and makes it run as its owner.
func attributes(who *owner) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if who != nil {
		a.Credential = &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}
	}
	dieWithParent(a)
	return a
}
