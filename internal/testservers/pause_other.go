//go:build !unix

package testservers

import "time"

// Pause is for systems that can stop a process.
func (s *Server) Pause(time.Duration) { s.t.Skip("this system can't stop a process and let it go on") }
