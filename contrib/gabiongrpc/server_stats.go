package gabiongrpc

import "github.com/gabion-go/gabion/internal/admission"

// AdmissionStats is an Admission at one moment, and what it has counted since the
// beginning.
type AdmissionStats struct {
	Limit      int  // the most calls at once
	InUse      int  // calls that are worked on
	Queued     int  // calls that wait
	Overloaded bool // everybody has to wait, for longer than Target

	Admitted int64 // let in
	Exempt   int64 // not asked

	// Calls that were refused as UNAVAILABLE.
	QueueFull int64 // there was no room to wait
	TooLong   int64 // waited for as long as they may
	PushedOut int64 // the place in the queue went to a tenant with fewer there, or to a higher priority

	// Calls that were refused as RESOURCE_EXHAUSTED.
	OverShare int64 // the tenant had all that one may have

	// Work that was not begun because the caller would not have waited for its end.
	DeadlineShort int64 // too little time was left for it: refused as RESOURCE_EXHAUSTED
	Expired       int64 // the deadline had passed: refused as DEADLINE_EXCEEDED
	Gone          int64 // the caller had gone
}

// Refused is how many calls were refused for lack of room.
func (s AdmissionStats) Refused() int64 { return s.QueueFull + s.TooLong + s.PushedOut + s.OverShare }

// Saved is how many calls were not begun because the caller would not have waited for the answer.
func (s AdmissionStats) Saved() int64 { return s.DeadlineShort + s.Expired + s.Gone }

// Stats returns the numbers of one moment.
func (a *Admission) Stats() AdmissionStats {
	a.once.Do(a.open)
	if a.room == nil {
		return AdmissionStats{}
	}
	s := a.room.Stats()
	return AdmissionStats{
		Limit: s.Limit, InUse: s.InUse, Queued: s.Queued, Overloaded: s.Overloaded, Admitted: s.Admitted, Exempt: a.exempt.Load(),
		QueueFull: s.Answers[admission.QueueFull], TooLong: s.Answers[admission.TooLong],
		PushedOut: s.Answers[admission.PushedOut], OverShare: s.Answers[admission.OverShare],
		DeadlineShort: s.Answers[admission.Short], Expired: s.Answers[admission.Expired], Gone: s.Answers[admission.Gone],
	}
}
