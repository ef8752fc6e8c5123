package testservers

// An owner is the user that a server runs as when the test's own user won't do.
type owner struct{ uid, gid int }
