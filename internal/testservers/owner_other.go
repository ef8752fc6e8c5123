//go:build !unix

package testservers

import "syscall"

func unprivileged(...string) (*owner, error) { return nil, nil }

func attributes(*owner) *syscall.SysProcAttr { return nil }
